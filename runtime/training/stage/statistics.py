"""Which running statistics of batch norms a run of a plan keeps up to date."""

from __future__ import annotations

from ....profiles.graph import Graph
from ....profiles.graph.running import running_buffers
from ....simulator.training.plan.file import TrainingPlan

__all__ = ["kept_statistics"]


def kept_statistics(plan: TrainingPlan, graph: Graph) -> dict[str, tuple[int, ...]]:
    """Name of every buffer that the plan's stages update -> its shape.

    A norm that a module calls several times updates its buffers in the order of the calls. That needs them in one
    place: buffers that norms of several stages update, or norms of one stage whose channels are cut differently, are
    left out, and leave a run as they entered it.
    """
    places: dict[str, set[tuple[int, tuple[str, ...]]]] = {}
    for number, stage in enumerate(plan.stages):
        for op in graph.operators[stage.first : stage.last]:
            if op.running is None:
                continue
            how, channels = stage.operators.get(op.name), op.parsed.operands[0][1]
            axes = ("", "") if how is None else how.axes
            cut = tuple(str(axis) for axis, loop in enumerate(axes) if loop and loop in channels)
            for name in op.running.names:
                places.setdefault(name, set()).add((number, cut))
    return {name: shape for name, shape in running_buffers(graph.operators).items() if len(places[name]) == 1}
