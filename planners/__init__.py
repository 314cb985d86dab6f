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
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..simulator.serving.plan.file import Plan
    from . import alpaserve, collage, trivial
    from .alpaserve.baselines import dedicated, greedy_no_partition, round_robin, selective_replication
    from .alpaserve.clockwork import ScheduledPlan, clockwork_pp
    from .contract.problem import Problem
    from .contract.shipped import PLANNERS
    from .contract.source import PlannerSource

BASELINES = ("dedicated", "greedy_no_partition", "round_robin", "selective_replication")
ROOMS = {
    **dict.fromkeys(BASELINES, "alpaserve.baselines"),
    **dict.fromkeys(("ScheduledPlan", "clockwork_pp"), "alpaserve.clockwork"),
    "Problem": "contract.problem", "PLANNERS": "contract.shipped", "PlannerSource": "contract.source",
}  # fmt: skip
"""Name -> where it is. A family is loaded when it is asked for: to plan language models needs no solver of another."""

__all__ = [
    "PLANNERS",
    "PlannerSource",
    "Problem",
    "ScheduledPlan",
    "alpaserve",
    "clockwork_pp",
    "collage",
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
    from .contract.source import PlannerSource

    return PlannerSource.find(name).as_function()


def __getattr__(name: str) -> Any:
    """A family, or a name of one, loaded when first used."""
    if name in ("alpaserve", "collage", "trivial"):
        return import_module(f".{name}", __name__)
    if name in ROOMS:
        return getattr(import_module(f".{ROOMS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
