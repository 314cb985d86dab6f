"""Planners: who decides which devices form a group and which models it holds. One folder per planner family.

`PLANNERS` holds the shipped ones by name. All are called alike::

    planner(cluster, models, trace, profiles, dispatch=…, admission=…, overhead=…, seed=…, progress=…, …)

and what they return has ``placement`` (for `meshwright.simulator.simulate`), ``predicted``, ``planner`` and
``explain()``: a `Plan`, or for Clockwork++, whose placement changes over time, a `ScheduledPlan`.

A planner of one's own is a function ``plan(problem) -> Plan`` of a `Problem`, found by entry point
(``meshwright.planners``) or as ``path/to/file.py:name``; `contract.PlannerContract` tests it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..simulator.serving.plan.file import Plan
from . import alpaserve, trivial
from .alpaserve.baselines import dedicated, greedy_no_partition, round_robin, selective_replication
from .alpaserve.clockwork import ScheduledPlan, clockwork_pp
from .contract.problem import Problem
from .contract.shipped import PLANNERS
from .contract.source import PlannerSource

__all__ = [
    "PLANNERS",
    "PlannerSource",
    "Problem",
    "ScheduledPlan",
    "alpaserve",
    "clockwork_pp",
    "dedicated",
    "greedy_no_partition",
    "planner",
    "round_robin",
    "selective_replication",
    "trivial",
]


def planner(name: str) -> Callable[..., Plan | ScheduledPlan]:
    """The planner of that name, called as the shipped ones are whatever it is.

    Parameters
    ----------
    name : str
        A shipped planner, one that an installed package brings, or ``path/to/file.py:name``.

    Raises
    ------
    InputError
        If there is none; names those that there are, and the nearest.
    """
    return PlannerSource.find(name).as_function()
