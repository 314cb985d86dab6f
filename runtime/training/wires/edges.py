"""What crosses between stages: values, their gradients, and gradients of parameters that several stages share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....profiles.graph import Graph
from ....simulator.sharding import ShardingSpec
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.resharding.crossing import reshard_across
from ..stage.layout import differentiable
from .layout import Layout, natural, parse_layout, whole
from .messages import Message, Place, messages

__all__ = ["SIGNAL", "Edge", "crossing", "edges_of", "mesh_ranks", "signals_of", "tied_edges", "tied_groups"]

SIGNAL = ""
"""Name of an edge that carries no tensor of the graph: its reader only waits for its sender."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor that one stage hands to another.

    Parameters
    ----------
    source, target : int
        The stage that makes it, and the stage that reads it.
    name : str
        Name of the value or parameter.
    full : tuple of int
        Shape of the whole tensor.
    made, read : Place
        How it is sharded at the source and at the target.
    gradient : bool
        Whether a gradient comes back.
    dtype : str
        Type of its elements where these are integers or truth values; others are of the run's.
    """

    source: int
    target: int
    name: str
    full: tuple[int, ...]
    made: Place
    read: Place
    gradient: bool = True
    dtype: str = ""


def crossing(
    plan: TrainingPlan, edge: Edge, itemsize: int, *, back: bool = False
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The messages of an edge (of its gradient, if `back`), as the simulator plans them.

    Returns those between the two meshes, and those that follow inside the receiving mesh, where its devices gather
    what each was sent. Where the two stages share a mesh, each device is sent what it lacks.
    """
    a, b = (edge.target, edge.source) if back else (edge.source, edge.target)
    here, there = (edge.read, edge.made) if back else (edge.made, edge.read)
    if plan.stages[a].mesh == plan.stages[b].mesh:
        return messages(edge.full, here, there), ()
    views = [plan.mesh(s).view(plan.stages[s].logical) for s in (a, b)]
    ranks = {
        d: r for v, p in zip(views, (here, there), strict=True) for d, r in zip(v.mesh.device_ids, p.ranks, strict=True)
    }
    way = reshard_across(
        float(math.prod(edge.full) * itemsize), views[0], ShardingSpec(here.layout), views[1],
        ShardingSpec(there.layout), method=plan.resharding, shape=edge.full,
    )  # fmt: skip
    first = tuple(Message(ranks[m.source], ranks[m.target], m.box) for m in way.messages)
    then = tuple(
        Message(ranks[holder], ranks[device], box)
        for gather in way.gathers
        for holder, box in gather.parts
        for device in gather.devices
        if device != holder
    )
    return first, then


def mesh_ranks(plan: TrainingPlan) -> tuple[tuple[int, ...], ...]:
    """Ranks of every mesh, row by row; one rank per device, counted through the meshes in the plan's order."""
    found: list[tuple[int, ...]] = []
    first = 0
    for mesh in plan.meshes:
        n = mesh.hosts * mesh.devices
        found.append(tuple(range(first, first + n)))
        first += n
    return tuple(found)


def edges_of(plan: TrainingPlan, graph: Graph) -> tuple[Edge, ...]:
    """Every value that crosses between stages, sorted by source, target and position in the graph.

    All ranks have this order, and number their messages by it.
    """
    planned = {(t.source, t.target, t.value): t for t in plan.transfers}
    wants = differentiable(graph)
    stage_of = {op.name: s for s, stage in enumerate(plan.stages) for op in graph.operators[stage.first : stage.last]}
    found: set[tuple[int, int, int, str]] = set()
    for t, stage in enumerate(plan.stages):
        for op in graph.operators[stage.first : stage.last]:
            for name in op.inputs:
                if name in stage_of and stage_of[name] != t:
                    found.add((stage_of[name], t, graph.index[name], name))
    edges: list[Edge] = []
    for source, target, index, name in sorted(found):
        op = graph.operators[index]
        transfer = planned.get((source, target, name))
        spec = transfer.target_spec if transfer is not None else ""
        where = f"plan: transfers of {name!r} to stage {target}"
        read = parse_layout(spec, len(op.shape), plan.stages[target].logical, where) if spec else whole(len(op.shape))
        edges.append(
            Edge(
                source,
                target,
                name,
                op.shape,
                _place(plan, source, _made(plan, graph, source, name)),
                _place(plan, target, read),
                wants[name],
                "" if op.dtype.startswith(("float", "bfloat")) else op.dtype,
            )
        )
    return tuple(edges)


def signals_of(plan: TrainingPlan, graph: Graph) -> tuple[Edge, ...]:
    """Edges of a plan's transfers between stages of which neither reads the other's results.

    They make the second stage wait for the first, as in a linear pipeline of a graph that has branches.
    """
    tied = {name for name, _ in tied_groups(plan, graph)}
    have = {(e.source, e.target) for e in edges_of(plan, graph)}
    pairs: dict[tuple[int, int], bool] = {}
    for t in plan.transfers:
        pair = t.source, t.target
        if pair not in have and t.value not in tied and plan.stages[t.source].mesh != plan.stages[t.target].mesh:
            pairs[pair] = pairs.get(pair, False) or t.gradient
    return tuple(
        Edge(a, b, SIGNAL, (1,), _place(plan, a, whole(1)), _place(plan, b, whole(1)), gradient)
        for (a, b), gradient in sorted(pairs.items())
    )


def _made(plan: TrainingPlan, graph: Graph, stage: int, name: str) -> Layout:
    entry, op = plan.stages[stage], graph.operators[graph.index[name]]
    how = entry.operators.get(name)
    if how is None:
        return natural(op.parsed.result, ("", ""), entry.logical)
    return parse_layout(how.result, len(op.shape), entry.logical, f"plan: stages.{stage}.operators.{name}")


def _place(plan: TrainingPlan, stage: int, layout: Layout) -> Place:
    entry = plan.stages[stage]
    return Place(mesh_ranks(plan)[entry.mesh], entry.logical, layout)


def tied_groups(plan: TrainingPlan, graph: Graph) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Trainable parameters that several stages read (tied embeddings), and those stages."""
    reads = [{name for op in graph.operators[stage.first : stage.last] for name in op.inputs} for stage in plan.stages]
    found: list[tuple[str, tuple[int, ...]]] = []
    for p in graph.parameters:
        stages = tuple(s for s, names in enumerate(reads) if p.name in names)
        if p.trainable and len(stages) > 1:
            found.append((p.name, stages))
    return tuple(found)


def tied_edges(plan: TrainingPlan, graph: Graph) -> tuple[Edge, ...]:
    """For each such parameter an edge from every stage to every other: each adds up all gradients by itself."""
    found: list[Edge] = []
    for name, stages in tied_groups(plan, graph):
        full = graph.tensors[name].shape
        places = {s: _place(plan, s, _state(plan, s, name, full)) for s in stages}
        found += [Edge(a, b, name, full, places[a], places[b]) for a in stages for b in stages if a != b]
    return tuple(found)


def _state(plan: TrainingPlan, stage: int, name: str, full: Sequence[int]) -> Layout:
    entry = plan.stages[stage]
    spec = entry.optimizer_states.get(name, entry.parameters.get(name, "R" * len(full)))
    return parse_layout(spec, len(full), entry.logical, f"plan: stages.{stage}.parameters.{name}")
