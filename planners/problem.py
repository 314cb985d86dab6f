"""`Problem`: what a planner is given. A planner is ``plan(problem) -> Plan``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..profiles.profile import ModelProfile
from ..simulator.cluster import Cluster
from ..traces.trace import Trace

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """One planning problem of the serving world.

    Parameters
    ----------
    cluster : Cluster
        Where to place.
    models : tuple of str
        What to place.
    trace : Trace
        The traffic to plan for; what the plan is scored on may be another draw.
    profiles : Mapping[str, ModelProfile]
        What models cost.
    dispatch, admission, overhead
        How the plan will be served.
    seed : int
        Seed for whatever the planner draws.
    options : Mapping[str, Any]
        The planner's own options.
    """

    cluster: Cluster
    models: tuple[str, ...]
    trace: Trace
    profiles: Mapping[str, ModelProfile]
    dispatch: str = "shortest_queue"
    admission: bool = True
    overhead: float = 0.0
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
