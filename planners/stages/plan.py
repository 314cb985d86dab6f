"""`stage_plan`: turn chosen stages into a `TrainingPlan`.

It places the meshes, cuts every operator along its samples (data parallelism), and lists transfers and times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InfeasibleError
from ...profiles.graph import Graph, Operator, differentiable, reordered
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.plan.entries import PlannerEntry
from ...simulator.training.plan.entries import MeshEntry, ModelEntry, OperatorEntry, StageEntry, TransferEntry
from ...simulator.training.plan.file import TrainingPlan
from .costs import StageCosts, stage_mesh

__all__ = ["ChosenStage", "place_stages", "stage_plan"]

Dims = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, repr=False)
class ChosenStage(Shown):
    """A stage that a planner chose.

    Parameters
    ----------
    units : tuple of int
        Units of the stage costs, in a topological order.
    devices : int
        Data-parallel degree.
    microbatch : int
        Samples of one microbatch, of all its devices together.
    k, warmup : int
        Same as in `StageEntry`; for kFkB schedules only.
    order : str
        Same as in `StageEntry`; for explicit schedules only.
    """

    units: tuple[int, ...]
    devices: int
    microbatch: int
    k: int = 1
    warmup: int = -1
    order: str = ""


def place_stages(cluster: Cluster, devices: Sequence[int]) -> tuple[MeshEntry, ...]:
    """Place the meshes of stages beside each other.

    They are placed in the given order. If alignment to their sizes would leave gaps and the cluster would be too small,
    they are placed largest first instead, which leaves none.

    Raises
    ------
    InfeasibleError
        If the cluster has too few devices, or no mesh has as many as a stage.
    """
    if sum(devices) > cluster.n_devices:
        raise InfeasibleError(f"stages: {sum(devices)} devices on {cluster}, which has fewer")
    odd = next((d for d in devices if stage_mesh(cluster, d) is None), None)
    if odd is not None:
        raise InfeasibleError(f"stages: no rectangle of {cluster} has {odd} devices; use a divisor of a node's")
    # First in the pipeline's order, so that neighbouring stages lie next to each other; if that leaves gaps, largest
    # first, which wastes least.
    for order in (range(len(devices)), sorted(range(len(devices)), key=lambda s: -devices[s])):
        at, starts = 0, dict[int, int]()
        for s in order:
            # A mesh begins at a multiple of its size, so that it never straddles two nodes unless it has whole ones.
            step = min(devices[s], cluster.devices_per_node)
            starts[s] = -(-at // step) * step
            at = starts[s] + devices[s]
        if at <= cluster.n_devices:
            break
    shapes = [stage_mesh(cluster, d) or (1, d) for d in devices]
    width = cluster.devices_per_node
    return tuple(
        MeshEntry(hosts=h, devices=n, first_host=starts[s] // width, first_device=starts[s] % width)
        for s, (h, n) in enumerate(shapes)
    )


def stage_plan(
    costs: StageCosts,
    stages: Sequence[ChosenStage],
    *,
    planner: PlannerEntry,
    schedule: str = "1f1b",
    sequential: bool = False,
    predicted: Mapping[str, float] | None = None,
    options: Mapping[str, Any] | None = None,
) -> TrainingPlan:
    """Assemble a `TrainingPlan` from chosen stages.

    Parameters
    ----------
    costs : StageCosts
        The costs on which the stages were chosen.
    stages : sequence of ChosenStage
        In a topological order of the graph of stages; together they hold every unit once.
    planner : PlannerEntry
        The planner that chose them, as the plan records it.
    schedule : str
        Name of the plan's schedule.
    sequential : bool
        Whether each stage waits for the one before it even if it reads nothing from it, as in a pipeline of a
        linearised graph. A transfer of zero bytes then expresses the wait.
    predicted : mapping, optional
        Metric -> value.
    options : mapping, optional
        Further entries of the plan, such as ``resharding``.
    """
    operators = [i for stage in stages for u in stage.units for i in costs.units[u]]
    own = operators == list(range(len(costs.graph.operators)))
    graph = costs.graph if own else reordered(costs.graph, operators)
    sizes = {stage.microbatch for stage in stages}
    graphs = {b: graph.with_batch(b) for b in sizes}
    bounds = np.cumsum([0, *(sum(len(costs.units[u]) for u in stage.units) for stage in stages)]).tolist()
    meshes = place_stages(costs.cluster, [stage.devices for stage in stages])
    entries = tuple(
        _entry(costs, stage, s, graphs[stage.microbatch], (bounds[s], bounds[s + 1]), max(sizes))
        for s, stage in enumerate(stages)
    )
    dtypes = [t.dtype for t in graph.parameters]
    return TrainingPlan.of(
        costs.cluster,
        model=ModelEntry(
            name=graph.name,
            digest=costs.graph.digest,
            dtype=dtypes[0] if dtypes else graph.operators[0].dtype,
            optimizer=costs.optimizer,  # type: ignore[arg-type]  # checked when it was priced
            order=() if own else tuple(operators),
        ),
        global_batch=costs.global_batch,
        microbatches=costs.global_batch // max(sizes),
        schedule=schedule,
        overlap=costs.overlap,
        meshes=meshes,
        stages=entries,
        transfers=_transfers([graphs[stage.microbatch] for stage in stages], entries, sequential),
        planner=planner,
        cost_source=costs.source,
        predicted=dict(predicted or {}),
        **(options or {}),
    )


def _entry(
    costs: StageCosts, stage: ChosenStage, number: int, graph: Graph, bounds: tuple[int, int], usual: int
) -> StageEntry:
    mask = np.zeros((1, costs.n_units), bool)
    mask[0, list(stage.units)] = True
    found = costs.of_sets(mask)
    column = costs.column(stage.microbatch, stage.devices)
    reduce, update = costs.iteration_s(found, stage.devices)
    share = stage.microbatch / stage.devices
    operators: dict[str, OperatorEntry] = {}
    parameters: dict[str, str] = {}
    known = {t.name for t in graph.parameters}
    for op in graph.operators[bounds[0] : bounds[1]]:
        loop = _samples(op) if stage.devices > 1 else ""
        specs = tuple(_spec(dims, loop) for dims in op.parsed.operands)
        operators[op.name] = OperatorEntry.of(op, (loop, ""), _spec(op.parsed.result, loop), specs)
        parameters |= {name: spec for name, spec in zip(op.inputs, specs, strict=True) if name in known}
    return StageEntry(
        mesh=number,
        logical=(stage.devices, 1),
        first=bounds[0],
        last=bounds[1],
        forward_s=float(found.forward_s[0, column]),
        backward_input_s=float(found.backward_input_s[0, column]),
        backward_weight_s=float(found.backward_weight_s[0, column]),
        reduce_s=float(reduce[0]),
        update_s=float(update[0]),
        state_bytes=float(found.state_bytes[0]),
        activation_bytes=float(found.activation_bytes[0]) * share,
        work_bytes=float(found.work_bytes[0]) * share,
        flops=sum(op.flops for op in graph.operators[bounds[0] : bounds[1]]),
        operators=operators,
        parameters=parameters,
        microbatch=0 if stage.microbatch == usual else stage.microbatch,
        k=stage.k,
        warmup=stage.warmup,
        order=stage.order,
    )


def _samples(op: Operator) -> str:
    """The loop that data parallelism cuts: the largest over samples, for a product may have more than one."""
    loops = [x for x in op.loops if x.batch and x.split != "whole"]
    return max(loops, key=lambda x: x.size).name if loops else ""


def _spec(dims: Dims, loop: str) -> str:
    return "".join("S0" if loop and group and group[0] == loop else "R" for group in dims)


def _transfers(graphs: Sequence[Graph], stages: Sequence[StageEntry], sequential: bool) -> tuple[TransferEntry, ...]:
    """All transfers between stages.

    These are the values that a stage reads from others (sized by the microbatch of the stage that makes them), the
    parameters that several stages keep, and in a sequential pipeline an empty transfer between neighbours that
    exchange nothing.
    """
    graph = graphs[0]
    gradient = differentiable(graph)
    stage_of = [s for s, stage in enumerate(stages) for _ in range(stage.first, stage.last)]
    found: dict[tuple[int, int, str], TransferEntry] = {}
    holders: dict[str, list[int]] = {}
    for t, stage in enumerate(stages):
        for name in stage.parameters:
            holders.setdefault(name, []).append(t)
        for op in graph.operators[stage.first : stage.last]:
            for name, spec in zip(op.inputs, stage.operators[op.name].operands, strict=True):
                s = stage_of[graph.index[name]] if name in graph.index else t
                if s != t:
                    found.setdefault((s, t, name), TransferEntry(
                        source=s, target=t, value=name, bytes=float(graphs[s].bytes_of(name)),
                        source_spec=stages[s].operators[name].result, target_spec=spec, gradient=name in gradient,
                    ))  # fmt: skip
    for name, keep in holders.items():
        if graph.tensors[name].trainable:
            for other in keep[1:]:
                found[keep[0], other, name] = TransferEntry(
                    source=keep[0], target=other, value=name, bytes=float(graph.tensors[name].bytes),
                    source_spec=stages[keep[0]].parameters[name], target_spec=stages[other].parameters[name],
                )  # fmt: skip
    for s in range(len(stages) - 1 if sequential else 0):
        both = {t.value for t in found.values() if (t.source, t.target, t.gradient) == (s, s + 1, True)} - set(holders)
        if not both:
            name = graph.operators[stages[s].last - 1].name
            found[s, s + 1, name] = TransferEntry(source=s, target=s + 1, value=name, bytes=0.0)
    # By stages, then in the order of the graph (parameters, which have no place in it, first): the same plan is the
    # same file.
    return tuple(found[key] for key in sorted(found, key=lambda k: (k[0], k[1], graph.index.get(k[2], -1), k[2])))
