"""Planners: who decides which devices form a group and which models it holds. One folder per planner family.

`PLANNERS` holds them by name. All are called alike::

    planner(cluster, models, trace, profiles, dispatch=…, admission=…, overhead=…, seed=…, progress=…, …)

and what they return has ``placement`` (for `meshwright.simulator.simulate`), ``predicted``, ``planner`` and
``explain()``: a `Plan`, or for Clockwork++, whose placement changes over time, a `ScheduledPlan`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..errors import InputError
from ..simulator.plan import Plan
from . import alpaserve
from .alpaserve.baselines import dedicated, greedy_no_partition, round_robin, selective_replication
from .alpaserve.clockwork import ScheduledPlan, clockwork_pp
from .problem import Problem
from .source import PlannerSource

__all__ = ["PLANNERS", "PlannerSource", "Problem", "ScheduledPlan", "alpaserve", "planner"]

PLANNERS: dict[str, Callable[..., Plan | ScheduledPlan]] = {
    "alpaserve": alpaserve.plan,
    "alpaserve-local-search": partial(alpaserve.plan, local_search_iterations=2000),
    "selective-replication": selective_replication,
    "clockwork++": clockwork_pp,
    "round-robin": round_robin,
    "greedy-no-partition": greedy_no_partition,
    "dedicated": dedicated,
}
"""Name -> planner."""


def planner(name: str) -> Callable[..., Plan | ScheduledPlan]:
    """The planner of that name.

    Raises
    ------
    InputError
        If there is none; names those that there are.
    """
    if name not in PLANNERS:
        raise InputError(f"planner: unknown planner {name!r}; expected one of {', '.join(PLANNERS)}")
    return PLANNERS[name]
