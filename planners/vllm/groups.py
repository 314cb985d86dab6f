"""Groups of devices that several models share: how a cluster is cut into them, and how a group's memory is split."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ...errors import InfeasibleError, InputError
from ...profiles.llm.capacity import KVCapacity, kv_capacity
from ...profiles.llm.cost.kinds.experts import ALL2ALL
from ...profiles.llm.engine_memory import other_bytes
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.entries import Deployment
from ...simulator.llm.plan.file import WEIGHTS
from .candidate import EngineShape
from .demand import LLMDemand
from .layouts import place
from .space import SearchSpace

__all__ = ["Group", "Load", "Partition", "check_shared", "deployments", "partitions"]

UNSHARED: dict[str, Any] = {
    "cp": 1, "dp": 1, "expert_parallel": False, "eplb": False, "all2all": ALL2ALL[0], "speculative": None,
    "prefix_caching": False, "routers": "round_robin",
}  # fmt: skip
"""Options that engines on shared devices have no choice of -> what they are."""


@dataclass(frozen=True, slots=True)
class Group:
    """Devices that compute together.

    Parameters
    ----------
    tp, pp : int
        How each model on it is cut.
    devices : tuple of int
        Which, stage by stage.
    """

    tp: int
    pp: int
    devices: tuple[int, ...]

    def __str__(self) -> str:
        return f"TP{self.tp}" + (f" PP{self.pp}" if self.pp > 1 else "")


@dataclass(frozen=True, slots=True)
class Partition:
    """A way to cut a cluster into groups.

    Parameters
    ----------
    groups : tuple of Group
        Largest first.
    """

    groups: tuple[Group, ...]

    def __str__(self) -> str:
        return ", ".join(f"[{group}]" for group in self.groups)


@dataclass(frozen=True, slots=True)
class Load:
    """What splitting memory needs to know of a model's requests.

    Parameters
    ----------
    tokens_s : float
        Requests per second x tokens that one holds on average x tokens that it generates: by Little's law, what it
        holds at a time is proportional to that.
    longest : int
        Tokens of the longest sequence.
    """

    tokens_s: float
    longest: int

    @classmethod
    def of(cls, demand: LLMDemand, seeds: Sequence[int]) -> Load:
        """The load of a demand."""
        traces = [demand.traffic.trace(seed) for seed in seeds]
        prompt, output = (
            float(sum(x.mean() for x in xs) / len(traces))
            for xs in ([t.prompt_tokens for t in traces], [t.output_tokens for t in traces])
        )
        longest = max(int((t.prompt_tokens + t.output_tokens).max()) for t in traces)
        rate = demand.traffic.per_second
        held = (prompt + output / 2) * output
        return cls((rate if math.isfinite(rate) else 1.0) * held, min(-(-longest // 128) * 128, demand.model.longest))


def check_shared(space: SearchSpace) -> None:
    """See that no option is asked for that engines on shared devices are not planned with.

    Raises
    ------
    InputError
        Naming the option.
    """
    found = [name for name, only in UNSHARED.items() if getattr(space, name)[0] != only]
    found += ["scheduler"] if space.options else []
    found += ["disaggregate"] if space.disaggregate == "only" else []
    if found:
        raise InputError(
            f"space: {found[0]}: models that share devices are not planned with it (got {getattr(space, found[0])!r}); "
            "leave it out, or leave share out"
        )


def partitions(cluster: Cluster, space: SearchSpace) -> Iterator[Partition]:
    """Every way to cut all devices into groups of the sizes that the space's degrees give.

    Groups of one size are cut alike (AlpaServe §4.2 does the same within a bucket); the order of groups does not count.
    """
    shapes: dict[int, list[tuple[int, int]]] = {}
    for tp, pp in product(space.tp, space.pp):
        if tp <= cluster.devices_per_node and tp * pp <= cluster.n_devices:
            shapes.setdefault(tp * pp, []).append((tp, pp))
    sizes = sorted(shapes, reverse=True)
    for counts in _counts(sizes, cluster.n_devices):
        used = [size for size, count in zip(sizes, counts, strict=True) if count]
        for chosen in product(*(shapes[size] for size in used)):
            cut = dict(zip(used, chosen, strict=True))
            kinds = [cut[s] for s, n in zip(sizes, counts, strict=True) for _ in range(n)]
            rows = place([(tp * pp, tp) for tp, pp in kinds], cluster)
            if rows is not None:
                yield Partition(tuple(Group(tp, pp, row) for (tp, pp), row in zip(kinds, rows, strict=True)))


def _counts(sizes: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """How many groups of each size make up the total."""
    if not sizes:
        if total == 0:
            yield ()
        return
    for count in range(total // sizes[0], -1, -1):
        for rest in _counts(sizes[1:], total - count * sizes[0]):
            yield (count, *rest)


def deployments(
    partition: Partition,
    held: Sequence[frozenset[int]],
    demands: Sequence[LLMDemand],
    loads: Sequence[Load],
    cluster: Cluster,
    space: SearchSpace,
) -> tuple[Deployment, ...] | None:
    """The engines of models on groups, with the memory of each group split among its models.

    Of what weights and activations leave, each model first gets room for its longest sequence; the rest is split in
    proportion to what the models' requests hold (`Load`), those of a model spread evenly over its groups.

    Parameters
    ----------
    partition : Partition
        The groups.
    held : sequence of frozenset of int
        For each group the numbers of its models.
    demands, loads : sequence
        The models.
    cluster, space : Cluster, SearchSpace
        Where; of the space the first value of each option.

    Returns
    -------
    tuple of Deployment, or None
        None where something does not fit.
    """
    made: list[Deployment] = []
    for number, (group, models) in enumerate(zip(partition.groups, held, strict=True)):
        shapes = {m: _shape(group, loads[m], space) for m in sorted(models)}
        try:
            fits = {m: _capacity(demands[m], shape, cluster) for m, shape in shapes.items()}
        except (InfeasibleError, InputError):
            return None
        room = math.ceil(cluster.spec.memory_bytes * space.utilizations[0])
        room -= sum(f.weight_bytes + f.other_bytes for f in fits.values())
        least = {m: (-(-loads[m].longest // f.block_size) + 1) * group.pp for m, f in fits.items()}
        room -= sum(least[m] * f.block_bytes for m, f in fits.items())
        if room < 0:
            return None
        wish = {
            m: loads[m].tokens_s * f.block_bytes / f.block_size / sum(m in h for h in held) for m, f in fits.items()
        }
        for m, f in fits.items():
            blocks = least[m] + int(room * wish[m] / sum(wish.values()) // f.block_bytes)
            # An engine counts its blocks from this share: half a block more, so that rounding does not cost one.
            taken = f.weight_bytes + f.other_bytes + blocks * f.block_bytes + f.block_bytes // 2
            shape = replace(
                shapes[m], num_blocks=blocks, other_bytes=f.other_bytes, utilization=taken / cluster.spec.memory_bytes
            )
            made.append(shape.deployment(f"{demands[m].name} on {number}", demands[m].name, [group.devices]))
    return tuple(made)


def _shape(group: Group, load: Load, space: SearchSpace) -> EngineShape:
    return EngineShape(
        group.tp, group.pp, 1, space.policies[0], space.block_sizes[0], space.batched_tokens[0], space.seqs[0],
        space.chunked_prefill[0], False, space.utilizations[0], load.longest, 1, space.precisions[0],
        space.kv_precisions[0],
    )  # fmt: skip


def _capacity(demand: LLMDemand, shape: EngineShape, cluster: Cluster) -> KVCapacity:
    """Memory of a rank if the model had the group to itself."""
    quantised = shape.precision not in ("bf16", "fp16")
    return kv_capacity(
        demand.model, cluster.spec.memory_bytes, tp=shape.tp, pp=shape.pp, utilization=shape.utilization,
        block_size=shape.block_size, weights=WEIGHTS.get(shape.precision, "float16"),
        kv=WEIGHTS.get(shape.kv_precision, "float16"),
        windows=False,
        other_bytes=other_bytes(demand.model, shape.tp, shape.batched_tokens, shape.seqs, bf16_ends=quantised),
    )  # fmt: skip
