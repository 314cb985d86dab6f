"""Which engines are possible: heads that divide, memory that suffices; and why others are not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ...errors import InfeasibleError, InputError
from ...profiles.devices import GIB
from ...profiles.llm.capacity import NoRoomError, kv_capacity
from ...profiles.llm.cost.kinds.experts import ALL2ALL
from ...profiles.llm.engine_memory import other_bytes
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.llm.decoding.speculative import Speculative, speculative_policy
from ...simulator.llm.plan.costs import flight_options
from ...simulator.llm.plan.drafts import MTP
from ...simulator.llm.plan.entries import MEMORY_OPTION
from ...simulator.llm.plan.file import WEIGHTS
from ...simulator.llm.policy.catalogue import POLICIES
from ...simulator.llm.simulate import dropped_rows
from ...simulator.llm.workload.requests import LLMTrace
from .candidate import Candidate, EngineShape
from .demand import LLMDemand
from .space import SearchSpace

__all__ = ["Rejected", "Shapes", "candidates", "engine_shapes", "place"]


@dataclass(frozen=True, slots=True, repr=False)
class Rejected(Shown):
    """An engine that is not possible, and why.

    Parameters
    ----------
    what : str
        Its parallelism and options.
    why : str
        The reason.
    short_bytes : int, optional
        By how much a device's memory is too small for it; 0 where it fits, and something else is wrong; None where its
        degrees are not possible whatever the memory.
    """

    what: str
    why: str
    short_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Shapes:
    """Engines of one model.

    Parameters
    ----------
    possible : tuple of EngineShape
        In order of search: few devices first.
    rejected : tuple of Rejected
        The others.
    """

    possible: tuple[EngineShape, ...]
    rejected: tuple[Rejected, ...]

    @property
    def nearest(self) -> Rejected | None:
        """Of those that are not possible the one that would need least: of equals the last, which has most devices."""
        if not self.rejected:
            return None
        return min(reversed(self.rejected), key=lambda r: math.inf if r.short_bytes is None else r.short_bytes)

    @property
    def why_not(self) -> str:
        """Why the nearest of those that are not possible is not, in words."""
        near = self.nearest
        if near is None:
            return "nothing was tried"
        short = f", {near.short_bytes / GIB:.2g} GiB a device short" if near.short_bytes else ""
        return f"{near.what}: {near.why}{short}"


def engine_shapes(demand: LLMDemand, cluster: Cluster, space: SearchSpace, seeds: Sequence[int] = (0,)) -> Shapes:
    """All engines of the space for a model on a cluster's devices, whatever number of these there is.

    Parameters
    ----------
    demand : LLMDemand
        The model and its requests.
    cluster : Cluster
        The devices.
    space : SearchSpace
        The choices.
    seeds : sequence of int
        Seeds under which the requests will be drawn: the longest of them all must fit.

    Raises
    ------
    InputError
        If a request is longer than the model takes, or than its window; on windows where prompts are to be handed over.
    """
    traces = [demand.traffic.trace(seed) for seed in seeds]
    trace = LLMTrace(
        np.zeros(sum(map(len, traces))),
        np.concatenate([t.prompt_tokens for t in traces]),
        np.concatenate([t.output_tokens for t in traces]),
    )
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    if longest > demand.model.max_positions:
        raise InputError(
            f"{demand.name}: a request of {longest} tokens, prompt and output, is longer than the model's "
            f"{demand.model.max_positions} positions; leave it out"
        )
    model = demand.model
    if model.chunked or set(space.policies) - {"vllm-v1"}:  # schedulers that know no windows
        model.check_length(longest, demand.name)
    most, first = longest, traces[0]
    longest = min(-(-longest // 128) * 128, model.max_positions)
    windows = (model.window, *model.kv_groups[1:]) if model.kv_groups[2] else (0, 1, 0)
    if windows[0] and space.disaggregate == "only":
        raise InputError(f"{demand.name}: layers with windows are not modelled across a hand-off; serve it undivided")
    shares_prefixes = first.prefix_ids is not None or first.after is not None
    caching = tuple(c for c in space.prefix_caching if shares_prefixes or not c) or tuple(space.prefix_caching)
    possible: list[EngineShape] = []
    rejected: list[Rejected] = []
    every = product(space.tp, space.pp, space.cp, space.dp)
    for tp, pp, cp, dp in sorted(every, key=lambda d: (d[0] * d[1] * d[3], d[1], d[2], d[3])):
        why = _degrees(demand, cluster, (tp, pp, cp, dp))
        if why:
            more = (f" CP{cp}" if cp > 1 else "") + (f" DP{dp}" if dp > 1 else "")
            rejected.append(Rejected(f"TP{tp} PP{pp}{more}", why))
            continue
        experts = list(_experts(demand, space, tp, dp))
        options = product(
            experts, space.policies, space.block_sizes, space.batched_tokens, space.seqs, space.chunked_prefill,
            caching, space.utilizations,
        )  # fmt: skip
        formats = product(space.precisions, space.kv_precisions, space.speculative)
        for (spread, policy, block, batched, seqs, chunked, cached, share), (weights, kv, drafts) in product(
            options, formats
        ):
            # Drafts stand behind the last token: those that are verified, and those to come.
            room = longest if drafts is None else min(-(-(most + 2 * drafts.tokens) // 128) * 128, model.max_positions)
            shape = EngineShape(
                tp, pp, cp, policy, block, batched, seqs, chunked, cached, share, room, 1, weights, kv, dp=dp,
                windows=windows if policy == "vllm-v1" else (0, 1, 0), speculative=drafts, more=space.options, **spread,
            )  # fmt: skip
            try:
                shape = _with_memory(demand, cluster, shape)
                _runs(shape, demand, trace)
                if space.disaggregate == "only" and not shape.splits:
                    raise InputError("prompts are handed over under vllm-v1 only, without windows and drafts")
            except NoRoomError as error:
                rejected.append(Rejected(str(shape), str(error), error.short_bytes))
            except (InfeasibleError, InputError) as error:
                rejected.append(Rejected(str(shape), str(error), 0))
            else:
                if shape not in possible:
                    possible.append(shape)
    return Shapes(tuple(possible), tuple(rejected))


def _experts(demand: LLMDemand, space: SearchSpace, tp: int, dp: int) -> Iterator[dict[str, Any]]:
    """Ways to spread experts over ranks: whether at all, whether evenly, how tokens reach them."""
    for ep in space.expert_parallel if demand.model.experts and tp * dp > 1 else (False,):
        for eplb, all2all in product(space.eplb if ep else (False,), space.all2all if ep and dp > 1 else ALL2ALL[:1]):
            yield {"ep": ep, "eplb": eplb, "all2all": all2all}


def _degrees(demand: LLMDemand, cluster: Cluster, degrees: tuple[int, int, int, int]) -> str:
    model, (tp, pp, cp, dp) = demand.model, degrees
    if model.heads % tp:
        return f"{tp} does not divide the {model.heads} attention heads"
    if model.kv_heads % tp and tp % model.kv_heads:
        return f"{tp} neither divides nor is a multiple of the {model.kv_heads} KV heads"
    if pp > model.layers:
        return f"{pp} stages are more than the {model.layers} layers"
    if tp > cluster.devices_per_node:
        return f"tensor parallelism over {tp} devices leaves the node of {cluster.devices_per_node}"
    if tp % cp:
        return f"the {tp} tensor-parallel ranks are no multiple of {cp} shards"
    if dp > 1 and not model.experts:
        return f"{model.name} has no experts at which {dp} ranks would meet; more engines serve as much"
    return ""


def _with_memory(demand: LLMDemand, cluster: Cluster, shape: EngineShape) -> EngineShape:
    """The shape with the KV blocks that are left beside weights, activations and the runtime.

    Raises
    ------
    InfeasibleError
        If none is left.
    """
    other = other_bytes(
        demand.model, shape.tp, shape.batched_tokens, shape.seqs, bf16_ends=shape.precision not in ("bf16", "fp16")
    )
    ep, drafts, kept = shape.tp * shape.dp if shape.ep else 1, shape.speculative, 1.0
    if shape.dp > 1 and not (shape.policy == "vllm-v1" and shape.chunked_prefill):
        raise InputError("ranks with requests of their own go with vllm-v1 and chunked prefill")
    if drafts is not None:
        if shape.policy != "vllm-v1" or shape.pp > 1 or shape.windows[0]:
            raise InputError("speculative decoding goes with vllm-v1, pp 1 and no windows")
        other += drafts.weight_bytes(shape.tp, WEIGHTS.get(shape.precision, "float16"))
        kept = drafts.kv_share(demand.model, WEIGHTS.get(shape.kv_precision, "float16"))
    found = kv_capacity(
        demand.model, cluster.spec.memory_bytes, tp=shape.tp, pp=shape.pp, utilization=shape.utilization,
        block_size=shape.block_size, weights=WEIGHTS.get(shape.precision, "float16"),
        kv=WEIGHTS.get(shape.kv_precision, "float16"), other_bytes=other, cp=shape.cp, ep=ep, dp=shape.dp,
        windows=bool(shape.windows[0]), mtp=drafts is not None and drafts.draft == MTP,
    )  # fmt: skip
    if shape.policy not in MEMORY_OPTION:  # contiguous memory is counted in tokens
        return replace(shape, num_blocks=found.tokens, block_size=1, other_bytes=other)
    return replace(shape, num_blocks=max(1, int(kept * found.engine_blocks)), other_bytes=other)


def _runs(shape: EngineShape, demand: LLMDemand, trace: LLMTrace) -> None:
    """Raise InputError if some request could not run to its end in such an engine."""
    if (stages := dict(shape.more).get("pipeline_parallel_size", 1)) not in (1, shape.pp):
        raise InputError(f"its scheduler's pipeline_parallel_size is {stages}, and it has {shape.pp} stages")
    options = flight_options(shape.deployment("x", demand.name, [range(shape.devices)]))
    if shape.dp > 1:  # a request's keys and values are on one rank
        options = replace(options, num_blocks=options.num_blocks // shape.dp)
    policy = POLICIES[shape.policy]
    if shape.speculative is not None:
        policy = speculative_policy(policy, Speculative(shape.speculative.tokens, shape.speculative.acceptance), 0)
    dropped_rows(trace, policy, options, strict=True)


def candidates(shapes: Shapes, n_devices: int, space: SearchSpace) -> Iterator[Candidate]:
    """Every way to use exactly so many devices."""
    for shape in shapes.possible:
        engines, left = divmod(n_devices, shape.devices)
        if left or not engines:
            continue
        if space.disaggregate != "only":
            for router in space.routers[: None if engines > 1 else 1]:
                yield Candidate(shape, engines, router=router)
        if space.disaggregate != "no" and shape.splits:
            for prefill in range(1, engines):
                yield Candidate(shape, prefill, engines - prefill, space.routers[0])


def place(sizes: list[tuple[int, int]], cluster: Cluster) -> list[tuple[int, ...]] | None:
    """Devices for engines: the largest engine first, each into the fullest node that has room for it.

    So the room that is left stays together, for engines that need much of it. An engine larger than a node takes
    several; each of its stages stays within one.

    Parameters
    ----------
    sizes : list of (int, int)
        Devices of each engine, and its degree of tensor parallelism, which must not leave a node.
    cluster : Cluster
        Where.

    Returns
    -------
    list of tuple of int, or None
        Devices of each engine in the order asked; None where they do not go in.
    """
    free = [
        [x for x in range(cluster.n_devices) if cluster.node_of(x) == node] for node in range(cluster.nodes)
    ]  # fmt: skip
    rows: dict[int, tuple[int, ...]] = {}
    for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i][0], i)):
        size, tp = sizes[i]
        fitting = [node for node in free if len(node) >= size]
        if fitting:
            node = min(fitting, key=len)
            rows[i] = tuple(node[:size])
            del node[:size]
            continue
        taken: list[int] = []  # stage by stage, each within a node
        for _ in range(size // tp):
            node = next((node for node in free if len(node) >= tp), None)
            if node is None:
                return None
            taken += node[:tp]
            del node[:tp]
        rows[i] = tuple(taken)
    return [rows[i] for i in range(len(sizes))]
