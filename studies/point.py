"""`Point`: one evaluation of a study, named by what varies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..reprs import Shown

__all__ = ["Point"]


@dataclass(frozen=True, slots=True, repr=False)
class Point(Shown):
    """One row of a study.

    Parameters
    ----------
    index : int
        Its row in the store, counted from 0 in the order in which points were asked for.
    values : tuple of (str, value)
        Path of each field that varies, and its value here.
    planner : str
        Label of the planner.
    replication : int
        Counts from 0; the case's seed is the study's plus this, so that the same replication has the same traffic
        for every planner and value (common random numbers).
    """

    index: int
    values: tuple[tuple[str, Any], ...]
    planner: str
    replication: int = 0
