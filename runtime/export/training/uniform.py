"""`uniform_layout`: a plan as tensor, pipeline, data and expert parallel sizes, if it is uniform enough to say so."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, fields

from ....errors import InputError
from ....profiles.graph import Graph, Operator
from ....simulator.training.plan.file import StageEntry, TrainingPlan
from ....simulator.training.plan.graph_words import stage_graph
from ....simulator.training.plan.program import is_tied
from ...training.wires.layout import Layout, parse_layout
from .roles import axis_roles, heavy_operators

__all__ = ["Uniform", "uniform_layout"]

TENSOR = ("column", "row", "head")


@dataclass(frozen=True, slots=True)
class StageSizes:
    """What must be the same in all stages."""

    tensor: int
    data: int
    expert: int
    zero: int
    sequence_parallel: bool
    recompute: str


@dataclass(frozen=True, slots=True)
class Uniform:
    """A uniform plan.

    Parameters
    ----------
    tensor, data, pipeline, virtual, expert : int
        Sizes; `virtual` stages on each mesh of the pipeline; `expert` of the data-parallel devices hold different
        experts.
    zero : int
        0: optimiser state on every device; 2: gradients and optimiser state cut over the data-parallel devices;
        3: weights too.
    sequence_parallel : bool
        Whether what lies between tensor-parallel operators is cut along the sequence.
    recompute : str
        none, selective or full.
    layers : tuple of int
        Layers of each stage.
    """

    tensor: int
    data: int
    pipeline: int
    virtual: int
    expert: int
    zero: int
    sequence_parallel: bool
    recompute: str
    layers: tuple[int, ...]


def uniform_layout(plan: TrainingPlan, graph: Graph) -> Uniform:
    """The sizes of a uniform plan.

    Raises
    ------
    InputError
        If it is not uniform; names the first stage that is not, and what it does.
    """
    if plan.further_clusters:
        where = " + ".join(map(str, plan.clusters))
        raise InputError(f"export: the plan spans {where}; one kind of device is known there; {ELSE}")
    _check_chain(plan)
    found = [_stage(plan, graph, s) for s in range(len(plan.stages))]
    for s, sizes in enumerate(found):
        for field in fields(StageSizes):
            mine, first = getattr(sizes, field.name), getattr(found[0], field.name)
            if mine != first:
                raise InputError(
                    f"export: stage {s} is not like stage 0: {WORDS[field.name]} {mine}, there {first}; {ELSE}"
                )
    meshes = [stage.mesh for stage in plan.stages]
    n = len(plan.meshes)
    if len(meshes) % n or meshes != [s % n for s in range(len(meshes))]:
        s = next((s for s, mesh in enumerate(meshes) if mesh != s % n), len(meshes) - 1)
        raise InputError(f"export: stage {s} is on mesh {meshes[s]}, expected {s % n}: stages in turn; {ELSE}")
    size = found[0].tensor * found[0].data
    for m in range(n):
        ids = plan.mesh(meshes.index(m)).device_ids
        if ids != tuple(range(m * size, (m + 1) * size)):
            raise InputError(
                f"export: stage {meshes.index(m)} is on devices {ids[0]} … {ids[-1]}, expected {m * size} … "
                f"{(m + 1) * size - 1}, in the order of the pipeline; {ELSE}"
            )
    one = found[0]
    return Uniform(
        one.tensor, one.data, n, len(meshes) // n, one.expert, one.zero, one.sequence_parallel, one.recompute,
        _layers(plan, graph),
    )  # fmt: skip


def _check_chain(plan: TrainingPlan) -> None:
    """Other systems know chains of stages, through which equal microbatches go whole."""
    stages = stage_graph(plan)
    if stages.branches:
        s = next(s for s in range(1, len(plan.stages)) if s - 1 not in stages.before[s])
        raise InputError(
            f"export: stage {s} does not wait for stage {s - 1}: the {len(plan.stages)} stages form a graph of depth "
            f"{stages.depth}, and only chains are known there; {ELSE}"
        )
    sizes = [plan.microbatch_of(s) for s in range(len(plan.stages))]
    other = next((s for s, size in enumerate(sizes) if size != sizes[0]), None)
    if other is not None:
        raise InputError(
            f"export: stage {other} has microbatches of {sizes[other]} samples, stage 0 of {sizes[0]}: one size is "
            f"known there; {ELSE}"
        )
    if plan.slices:
        raise InputError(f"export: schedule {plan.schedule} cuts sequences into token slices, unknown there; {ELSE}")
    skipped = next(
        (t for t in plan.transfers if t.target != t.source + 1 and t.bytes > 0 and not is_tied(plan, t)), None
    )
    if skipped is not None:
        raise InputError(
            f"export: stage {skipped.target} reads {skipped.value!r} of stage {skipped.source}: in a chain each stage "
            f"hands its result to the next; {ELSE}"
        )


ELSE = "export it --to torch"
WORDS = {
    "tensor": "tensor-parallel size", "data": "data-parallel size", "expert": "expert-parallel size",
    "zero": "ZeRO stage", "sequence_parallel": "sequence parallelism", "recompute": "recomputation",
}  # fmt: skip


def _stage(plan: TrainingPlan, graph: Graph, s: int) -> StageSizes:
    stage = plan.stages[s]
    if not stage.operators:
        raise InputError(f"export: stage {s}: the plan does not say how its operators are run; plan it with --planner")
    data, tensor, experts = _axes(graph, stage, s)
    if tensor == (0,) and stage.logical[1] > 1:
        raise InputError(
            f"export: stage {s} cuts tensors over axis 0 of its {stage.logical[0]} x {stage.logical[1]} mesh, whose "
            f"devices are not neighbours; {ELSE}"
        )
    for operator in heavy_operators(graph, stage):
        _whole_inputs(stage, operator, tensor, s)
    size = math.prod(stage.logical[axis] for axis in data)
    return StageSizes(
        math.prod(stage.logical[axis] for axis in tensor), size,
        math.prod(stage.logical[axis] for axis in experts), _zero(graph, stage, data, s),
        _sequence_parallel(graph, stage, tensor, s), stage.recompute,
    )  # fmt: skip


def _axes(graph: Graph, stage: StageEntry, s: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Axes that cut samples, tensors, and experts beside samples."""
    found: tuple[list[int], list[int], list[int]] = ([], [], [])
    for axis in (0, 1):
        if stage.logical[axis] == 1:
            continue
        roles = {op.name: axis_roles(graph, stage, op)[axis] for op in heavy_operators(graph, stage)}
        if "batch" not in roles.values():  # routers and dispatches are whole on every device of a tensor-parallel group
            roles = {n: r for n, r in roles.items() if r != "repeats" or not _routes(graph, n)}
        kinds = set(roles.values())
        if kinds <= {"batch"}:
            found[0].append(axis)
        elif kinds <= {"batch", "expert"}:
            found[0].append(axis)
            found[2].append(axis)
        elif kinds <= set(TENSOR):
            found[1].append(axis)
        else:
            usual = Counter(map(_family, roles.values())).most_common(1)[0][0]
            name = next(n for n, r in roles.items() if _family(r) != usual or usual not in ("samples", "tensors"))
            loop = stage.operators[name].axes[axis]
            raise InputError(
                f"export: stage {s} is not uniform: mesh axis {axis} cuts {usual} of most operators, but of {name!r} "
                f"{f'{loop!r} ({roles[name]})' if loop else 'nothing'}; {ELSE}"
            )
    return tuple(found[0]), tuple(found[1]), tuple(found[2])


def _family(role: str) -> str:
    return "samples" if role in ("batch", "expert") else "tensors" if role in TENSOR else role


def _routes(graph: Graph, name: str) -> bool:
    """Whether an operator sends tokens to experts, or scores experts for them."""
    if graph.operators[graph.index[name]].kind == "dispatch":
        return True
    readers = [graph.operators[i] for i, _ in graph.consumers[name]]
    after = [graph.operators[i] for op in readers for i, _ in graph.consumers[op.name]]
    return any(op.kind == "gate" for op in (*readers, *after))


def _layout(stage: StageEntry, spec: str, dims: int, name: str) -> Layout:
    return parse_layout(spec, dims, stage.logical, f"plan: {name}")


def _whole_inputs(stage: StageEntry, operator: Operator, tensor: tuple[int, ...], s: int) -> None:
    """Operators whose columns are cut read whole activations, as the targets' do."""
    entry = stage.operators[operator.name]
    if operator.kind != "contraction":
        return
    operand = _layout(stage, entry.operands[0], len(operator.parsed.operands[0]), operator.name)
    for axis in tensor:
        loop = entry.axes[axis]
        own = [d for d, group in enumerate(operator.parsed.operands[0]) if loop in group]
        if any(axis in cut and d not in own for d, cut in enumerate(operand)):
            raise InputError(
                f"export: stage {s}: {operator.name!r} reads an activation that is cut over mesh axis {axis} "
                f"({entry.operands[0]}) where it should be whole; {ELSE}"
            )


def _weights(graph: Graph, stage: StageEntry) -> list[str]:
    """Parameters of heavy operators: those that are large enough to be worth cutting."""
    names = (x for op in heavy_operators(graph, stage) for x in op.inputs)
    return [name for name in dict.fromkeys(names) if name in stage.parameters]


def _zero(graph: Graph, stage: StageEntry, data: tuple[int, ...], s: int) -> int:
    """ZeRO stage of the weights of heavy operators, which must all agree; norms and biases may stay whole."""
    levels: dict[str, int] = {}
    for name in _weights(graph, stage):
        dims = len(graph.tensors[name].shape)
        kept = _layout(stage, stage.parameters[name], dims, name)
        state = _layout(stage, stage.optimizer_states.get(name, stage.parameters[name]), dims, name)
        expert = any(axis in kept[0] for axis in data) and _is_expert(graph, stage, name)
        if data and not expert:
            cut = {axis for part in kept for axis in part}
            states = {axis for part in state for axis in part}
            levels[name] = 3 if cut.issuperset(data) else 2 if states.issuperset(data) else 0
    if len(set(levels.values())) > 1:
        usual = next(iter(levels.values()))
        name = next(n for n, level in levels.items() if level != usual)
        raise InputError(
            f"export: stage {s}: {name!r} is sharded as ZeRO stage {levels[name]}, weights before it as {usual}; {ELSE}"
        )
    return next(iter(levels.values()), 0)


def _is_expert(graph: Graph, stage: StageEntry, name: str) -> bool:
    readers = [graph.operators[i] for i, _ in graph.consumers[name]]
    return any("expert" in axis_roles(graph, stage, op).values() for op in readers if op.name in stage.operators)


def _sequence_parallel(graph: Graph, stage: StageEntry, tensor: tuple[int, ...], s: int) -> bool:
    """Whether the layers' norms are cut over the tensor axes, along something else than samples."""
    said: dict[str, bool] = {}
    for operator in graph.operators[stage.first : stage.last]:
        entry = stage.operators.get(operator.name)
        if operator.kind == "norm" and operator.layer >= 0 and entry is not None:
            layout = _layout(stage, entry.result, len(operator.parsed.result), operator.name)
            said[operator.name] = any(axis in cut for axis in tensor for cut in layout)
    if len(set(said.values())) > 1:
        odd = next(n for n, value in said.items() if value != next(iter(said.values())))
        raise InputError(f"export: stage {s}: {odd!r} is cut along the sequence, or not, unlike norms before; {ELSE}")
    return any(said.values())


def _layers(plan: TrainingPlan, graph: Graph) -> tuple[int, ...]:
    """Layers of each stage, which must be whole."""
    owner: dict[int, int] = {}
    for s, stage in enumerate(plan.stages):
        for operator in graph.operators[stage.first : stage.last]:
            if operator.layer >= 0 and owner.setdefault(operator.layer, s) != s:
                raise InputError(
                    f"export: stage {s} begins inside layer {operator.layer} (at {operator.name!r}); stages there hold "
                    f"whole layers; {ELSE}"
                )
    return tuple(sum(1 for owned in owner.values() if owned == s) for s in range(len(plan.stages)))
