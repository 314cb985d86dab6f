"""`hand_plan`: makes a training plan by simple rules, for measurements and for tests that must not rest on planners."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from ...errors import InputError
from ...profiles.graph import Graph, Operator, check_loss
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.plan.entries import PlannerEntry
from ...simulator.training.plan.file import (
    MeshEntry,
    ModelEntry,
    OperatorEntry,
    SliceEntry,
    StageEntry,
    TrainingPlan,
    TransferEntry,
)
from .wires.layout import Layout, natural

__all__ = ["RULES", "HandOptions", "Rule", "data_parallel", "hand_plan", "tensor_parallel"]

Rule = Callable[[Operator], tuple[str, str]]
"""Operator -> the loop that each of the two mesh axes cuts, or "" where an axis cuts none."""

MEGATRON = ("e", "n", "f", "v", "k")
"""Loops that tensor parallelism cuts, by the names that the zoo's graphs give them: experts, heads, hidden loop of
MLPs, vocabulary, channels. The first that an operator has is cut: an expert's hidden loop stays whole."""


def data_parallel(op: Operator) -> tuple[str, str]:
    """Both axes cut the samples."""
    return _batch(op), _batch(op)


def tensor_parallel(op: Operator) -> tuple[str, str]:
    """Axis 0 cuts the samples, axis 1 the loop that Megatron's tensor parallelism cuts."""
    return _batch(op), next((x for x in MEGATRON if x in op.cuttable), "")


def _batch(op: Operator) -> str:
    return next((x.name for x in op.loops if x.batch and x.name in op.cuttable), "")


RULES: Mapping[str, Rule] = MappingProxyType({"dp": data_parallel, "tp": tensor_parallel})
"""Rules by name."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HandOptions(Shown):
    """The rarer options of `hand_plan`.

    Parameters
    ----------
    stages_per_mesh : int
        Stages on each mesh; above 1 for interleaved schedules.
    zero : {0, 2, 3}
        Stage of ZeRO: axis 0 shards gradients and optimiser states (2), and weights too (3).
    recompute, optimizer : str
        Recomputation and optimiser of the plan.
    cluster : Cluster, optional
        The cluster that the plan is for; by default a node of V100s for each mesh.
    """

    stages_per_mesh: int = 1
    zero: Literal[0, 2, 3] = 0
    recompute: Literal["none", "selective", "full"] = "none"
    optimizer: Literal["adam", "sgd", "momentum", "adafactor"] = "adam"
    cluster: Cluster | None = None


def hand_plan(
    graph: Graph,
    *,
    meshes: Sequence[tuple[int, int]],
    rule: str | Rule = "dp",
    microbatches: int = 2,
    global_batch: int = 8,
    schedule: str = "1f1b",
    cuts: Sequence[int] | None = None,
    slices: Sequence[SliceEntry] = (),
    **options: Any,
) -> TrainingPlan:
    """Make a plan whose stages have equally many operators. Its times are 0 until `measure.calibrate` measures them.

    Parameters
    ----------
    graph : Graph
        What to train.
    meshes : sequence of (int, int)
        Logical shape of each mesh; a mesh's devices are all in one node, and each mesh has a node of its own.
    rule : str or callable
        A name of `RULES`, or a function that says which loop each mesh axis cuts. Where a loop is not divisible, the
        axis repeats the work instead.
    microbatches, global_batch, schedule
        Microbatches and samples of an iteration, and the plan's schedule.
    cuts : sequence of int, optional
        First operator of each stage, then the number of operators; by default stages are equally long.
    slices : sequence of SliceEntry, optional
        Token slices of the microbatches; `microbatches` and `global_batch` then follow from them.
    **options
        Fields of `HandOptions`.

    Raises
    ------
    InputError
        If the microbatches do not divide the global batch, or the graph has no loss.
    """
    check_loss(graph)
    asked = HandOptions(**options)
    chosen = RULES[rule] if isinstance(rule, str) else rule
    n = len(meshes) * asked.stages_per_mesh
    if slices:
        microbatches, global_batch = sum(x.count for x in slices), sum(x.samples * x.count for x in slices)
    if not slices and global_batch % microbatches:
        raise InputError(f"plan: {microbatches} microbatches do not divide a global batch of {global_batch}")
    # Microbatches may differ in size: cuts must divide all of them, hence the gcd; bytes are those of a mean one.
    small = graph.with_batch(math.gcd(*(x.samples for x in slices)) if slices else global_batch // microbatches)
    mean = global_batch / microbatches / small.batch
    count = len(small.operators)
    bounds = tuple(cuts) if cuts is not None else tuple(round(i * count / n) for i in range(n + 1))
    turn = range(len(meshes))
    # ZB-V goes there and back: the first mesh has the first stage and the last one.
    homes = [*turn, *reversed(turn)] if schedule == "zb_v" else [s % len(meshes) for s in range(n)]
    stages = tuple(
        _Stage(small, bounds[s], bounds[s + 1], meshes[homes[s]], chosen, asked).entry(homes[s]) for s in range(n)
    )
    if slices:
        zeros = tuple((0.0,) * len(x.tokens) for x in slices)
        stages = tuple(s.model_copy(update={"slice_forward_s": zeros, "slice_backward_s": zeros}) for s in stages)
    return TrainingPlan.of(
        asked.cluster or Cluster(nodes=len(meshes), devices_per_node=max(a * b for a, b in meshes)),
        model=ModelEntry(name=graph.name, digest=graph.digest, dtype="float32", optimizer=asked.optimizer),
        global_batch=global_batch,
        microbatches=microbatches,
        schedule=schedule,
        meshes=tuple(MeshEntry(hosts=1, devices=a * b, first_host=m) for m, (a, b) in enumerate(meshes)),
        stages=stages,
        transfers=_transfers(small, stages, mean),
        slices=tuple(slices),
        overlap=True,
        planner=PlannerEntry(name="by hand"),
    )


@dataclass(frozen=True)
class _Stage:
    graph: Graph
    first: int
    last: int
    shape: tuple[int, int]
    rule: Rule
    options: HandOptions

    def entry(self, mesh: int) -> StageEntry:
        """The stage as plans hold it."""
        graph = self.graph
        known = {p.name for p in graph.parameters}
        operators: dict[str, OperatorEntry] = {}
        parameters, states = dict[str, str](), dict[str, str]()
        for op in graph.operators[self.first : self.last]:
            axes = _dividing(op, self.rule(op), self.shape)
            layouts = [natural(dims, axes, self.shape) for dims in op.parsed.operands]
            result = _text(natural(op.parsed.result, axes, self.shape))
            operators[op.name] = OperatorEntry.of(op, axes, result, list(map(_text, layouts)))
            for name, layout in zip(op.inputs, layouts, strict=True):
                if name in known and name not in parameters:
                    cut = _more(layout, graph.tensors[name].shape, self.shape)
                    parameters[name] = _text(cut if self.options.zero == 3 else layout)
                    if self.options.zero == 2 and cut != layout:
                        states[name] = _text(cut)
        return StageEntry(
            mesh=mesh,
            logical=self.shape,
            first=self.first,
            last=self.last,
            forward_s=0.0,
            backward_input_s=0.0,
            state_bytes=0.0,
            activation_bytes=0.0,
            recompute=self.options.recompute,
            flops=sum(op.flops for op in graph.operators[self.first : self.last]),
            operators=operators,
            parameters=parameters,
            optimizer_states=states,
        )


def _transfers(graph: Graph, stages: Sequence[StageEntry], samples: float) -> tuple[TransferEntry, ...]:
    """Transfers of values, in the spec of the first operator that reads them, and of parameters that stages share.

    The bytes of values are for `samples` times the graph's samples.
    """
    found: list[TransferEntry] = []
    owner: dict[str, int] = {}
    for t, stage in enumerate(stages):
        seen: set[str] = set()
        for op in graph.operators[stage.first : stage.last]:
            for name, text in zip(op.inputs, stage.operators[op.name].operands, strict=True):
                if name in seen:
                    continue
                seen.add(name)
                at = graph.index.get(name, -1)
                n_bytes = float(graph.bytes_of(name))
                if 0 <= at < stage.first:
                    n_bytes *= samples
                    source = next(s for s, x in enumerate(stages) if x.first <= at < x.last)
                    made = stages[source].operators[name].result
                elif name in stage.parameters and owner.setdefault(name, t) != t:
                    source, made, text = owner[name], stages[owner[name]].parameters[name], stage.parameters[name]
                else:
                    continue
                found.append(
                    TransferEntry(
                        source=source,
                        target=t,
                        value=name,
                        bytes=n_bytes,
                        source_spec=made,
                        target_spec=text,
                    )
                )
    return tuple(found)


def _text(layout: Layout) -> str:
    return "".join(f"S{''.join(map(str, cut))}" if cut else "R" for cut in layout)


def _dividing(op: Operator, axes: tuple[str, str], shape: tuple[int, int]) -> tuple[str, str]:
    """The axes' loops, where these are divisible by the devices of the axes; "" elsewhere."""
    sizes = op.sizes
    kept = ["", ""]
    for axis in (0, 1):
        loop = axes[axis]
        if loop and sizes[loop] % shape[axis] == 0:
            kept[axis] = loop
            sizes[loop] //= shape[axis]
    return kept[0], kept[1]


def _more(layout: Layout, full: tuple[int, ...], shape: tuple[int, int]) -> Layout:
    """ZeRO's sharding: axis 0 cuts the first dimension that is whole and divisible, unless it cuts one already."""
    if shape[0] == 1 or any(0 in cut for cut in layout):
        return layout
    for d, cut in enumerate(layout):
        if not cut and full[d] % shape[0] == 0:
            return (*layout[:d], (0,), *layout[d + 1 :])
    return layout
