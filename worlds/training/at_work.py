"""`at_work`: what a profile of measured operators learns from a run of their stages, where one is possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...profiles.graph import Graph
    from ...profiles.graph.costs.measured.profile import TrainingProfile
    from ...profiles.measure.training import Asked

__all__ = ["at_work"]


def at_work(profile: TrainingProfile, graph: Graph, asked: Asked, tell: Callable[[str], None]) -> TrainingProfile:
    """See `OpenWorld.at_work`."""
    from ...runtime.training.measure.in_place import fits, measured_in_place
    from ...runtime.training.session import TrainingSession

    batch = asked.batches[0]
    if asked.on != "cpu":
        tell("stages at work are measured on cores alone: sums of operators stay as they are")
        return replace(profile, in_place=(1.0, 1.0), update_bytes_per_s=None)
    if len(graph.operators) < profile.devices or not fits(profile, graph, batch):
        tell("stages of this graph do not run on these devices: sums of its operators stay as they are")
        return replace(profile, in_place=(1.0, 1.0), update_bytes_per_s=None)
    tell("stages at work")
    with TrainingSession(profile.devices) as session:
        return measured_in_place(profile, graph, batch, session, rounds=1 if asked.fast else 3, seed=asked.seed)
