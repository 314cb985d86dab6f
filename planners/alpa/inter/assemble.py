"""The parts of a `TrainingPlan` from chosen stages: stages solved exactly, placed meshes, transfers, predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....profiles.graph import Graph
from ....simulator.cluster import Cluster
from ....simulator.mesh import Mesh
from ....simulator.training.plan.entries import MeshEntry, OperatorEntry, StageEntry, TransferEntry
from ..submeshes import place_submeshes
from .crossing import values_between
from .flops import has_gradient, training_flops
from .pricing.pricer import Pricer, Recompute, StagePlan

__all__ = ["PlacedStage", "Site", "mesh_entries", "predicted", "stage_entries", "transfers"]


@dataclass(frozen=True, slots=True)
class PlacedStage:
    """A stage before it is solved.

    Parameters
    ----------
    first, last : int
        Operators first … last − 1 of the graph.
    mesh : int
        Index of its mesh.
    logical : (int, int)
        Logical mesh shape.
    recompute : {"none", "selective", "full"}
        Activation recomputation.
    held : int
        Microbatches in flight.
    """

    first: int
    last: int
    mesh: int
    logical: tuple[int, int]
    recompute: Recompute
    held: int


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster that stages may lie in.

    Parameters
    ----------
    cluster : Cluster
        Its devices.
    pricer : Pricer
        The source of stage costs there, which also solves a stage exactly.
    memory_bytes : float
        Memory of one device that a plan may fill.
    """

    cluster: Cluster
    pricer: Pricer
    memory_bytes: float


def mesh_entries(shapes: Sequence[tuple[int, tuple[int, int]]], clusters: Sequence[Cluster]) -> tuple[MeshEntry, ...]:
    """Submeshes (number of the cluster, shape) placed on their clusters (Theorem 1), in the order of the stages."""
    placed = [
        iter(place_submeshes([shape for at, shape in shapes if at == k], c.nodes, c.devices_per_node))
        for k, c in enumerate(clusters)
    ]
    return tuple(
        MeshEntry(hosts=p.hosts, devices=p.devices, first_host=p.first_host, first_device=p.first_device, cluster=k)
        for k, p in ((k, next(placed[k])) for k, _ in shapes)
    )


def stage_entries(
    graph: Graph,
    stages: Sequence[PlacedStage],
    meshes: Sequence[MeshEntry],
    sites: Sequence[Site],
    microbatches: int,
) -> tuple[list[StageEntry], list[StagePlan]]:
    """Every stage solved under its own memory bound, as the plan's entries and as they were solved.

    Stages that share a mesh share its memory evenly.
    """
    entries: list[StageEntry] = []
    plans: list[StagePlan] = []
    for stage in stages:
        at = meshes[stage.mesh]
        site = sites[at.cluster]
        mesh = Mesh(site.cluster, at.hosts, at.devices, at.first_host, at.first_device).view(stage.logical)
        memory_bytes = site.memory_bytes / (len(stages) // len(meshes))
        plan = site.pricer.stage(
            graph, stage.first, stage.last, mesh, stage.recompute, microbatches, stage.held, memory_bytes
        )
        plans.append(plan)
        entries.append(
            StageEntry(
                mesh=stage.mesh,
                logical=stage.logical,
                first=stage.first,
                last=stage.last,
                forward_s=plan.forward_s,
                backward_input_s=plan.backward_input_s,
                backward_weight_s=plan.backward_weight_s,
                reduce_s=plan.reduce_s,
                update_s=plan.update_s,
                state_bytes=plan.state_bytes,
                activation_bytes=plan.activation_bytes,
                work_bytes=plan.work_bytes,
                flops=sum(op.flops for op in graph.operators[stage.first : stage.last]),
                recompute=stage.recompute,
                operators=dict(plan.operators),
                parameters=dict(plan.parameters),
                optimizer_states=dict(plan.optimizer_states),
                collectives=dict(plan.collectives),
                traffic=dict(plan.traffic),
            )
        )
    return entries, plans


def transfers(graph: Graph, stages: Sequence[StageEntry], plans: Sequence[StagePlan]) -> tuple[TransferEntry, ...]:
    """All transfers between stages: values that one stage makes and another reads, and shared parameters.

    A value goes straight from its maker to every reader. A parameter that several stages read, such as a tied
    embedding, is kept by each of them. Its gradient is summed between them once an iteration, before the update. That
    is a transfer from the first of these stages to each other one, and its value is the parameter's name.
    """
    gradient = has_gradient(graph)
    found: list[TransferEntry] = []
    for source, target, value in values_between(graph, [(s.first, s.last) for s in stages]):
        found.append(
            TransferEntry(
                source=source,
                target=target,
                value=value,
                bytes=graph.bytes_of(value),
                source_spec=_result_spec(stages[source].operators, value),
                target_spec=plans[target].inputs.get(value, ""),
                gradient=gradient[value],
            )
        )
    for tensor in graph.parameters:
        if not tensor.trainable:
            continue
        at = [i for i, _ in graph.consumers[tensor.name]]
        readers = sorted({s for s, stage in enumerate(stages) for i in at if stage.first <= i < stage.last})
        found += [
            TransferEntry(
                source=readers[0],
                target=other,
                value=tensor.name,
                bytes=tensor.bytes,
                source_spec=stages[readers[0]].parameters.get(tensor.name, ""),
                target_spec=stages[other].parameters.get(tensor.name, ""),
            )
            for other in readers[1:]
        ]
    return tuple(found)


def _result_spec(operators: Mapping[str, OperatorEntry], name: str) -> str:
    return operators[name].result if name in operators else ""


def predicted(
    graph: Graph, stages: Sequence[StageEntry], meshes: Sequence[MeshEntry], microbatches: int, peak_flops: float
) -> dict[str, float]:
    """Predicted numbers of a plan: Eq. 2's seconds, throughput, bubble; `peak_flops` are those of all devices.

    ``pflops`` counts a training step as the paper does: the FLOPs of the forward pass and of both backward passes,
    without recomputation. ``bubble`` is the share of device time in which devices wait. With several stages on one mesh
    (interleaving), the pipeline fills with chunks of a stage.
    """
    micro = [s.forward_s + s.backward_input_s + s.backward_weight_s for s in stages]
    once = [s.reduce_s + s.update_s for s in stages]
    total = [t + o / microbatches for t, o in zip(micro, once, strict=True)]
    busy = [0.0] * len(meshes)
    for s, stage in enumerate(stages):
        busy[stage.mesh] += total[s]
    rounds = len(stages) // len(meshes)
    if (
        rounds > 1
    ):  # the first microbatch meets every mesh once before the last mesh starts; then the longest mesh rules
        seconds = microbatches * max(busy) + sum(total[: len(meshes)]) - max(total[: len(meshes)])
    else:
        seconds = sum(total) + (microbatches - 1) * max(total)
    devices = [m.hosts * m.devices for m in meshes]
    used = sum(n * t for n, t in zip(devices, busy, strict=True)) * microbatches
    flops = float(training_flops(graph).sum()) * microbatches
    samples = graph.batch * microbatches
    return {
        "seconds": seconds,
        "pflops": flops / seconds / 1e15,
        "mfu": flops / seconds / peak_flops,
        "samples_per_s": samples / seconds,
        "items_per_s": samples * graph.items_per_sample / seconds,
        "bubble": 1.0 - used / (sum(devices) * seconds),
    }
