"""Which decision a report puts first: decisions are compared under the same circumstances, never across them."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ..worlds.fields import is_circumstance
from .grouping import group, missing, plain
from .point import Point
from .summary import field_columns, figures, fine_rows, metric_columns, metric_of

if TYPE_CHECKING:
    import pandas as pd

    from .study import Study

__all__ = ["Headline", "headline"]

SIZES = ("n_devices", "devices")
"""Metrics that say how large a decision is: of equally good ones the smaller wins."""


@dataclass(frozen=True)
class Headline:
    """The decision that does best under the circumstances of a study, and how it does.

    Parameters
    ----------
    point : Point
        The decision under the first of the circumstances that it has a plan in.
    decision, circumstances : tuple of str
        Which of the fields that vary are decided, and which are met.
    low, high : float
        Its smallest and largest mean over the circumstances.
    met : int
        How many different circumstances it was evaluated in.
    rivals : int
        Decisions, itself among them, that were evaluated under the same circumstances; 1 if none was.
    wins : int
        In how many of them none did better.
    """

    point: Point
    decision: tuple[str, ...]
    circumstances: tuple[str, ...]
    low: float
    high: float
    met: int
    rivals: int
    wins: int


def headline(frame: pd.DataFrame, study: Study, metric: str | None = None) -> Headline | None:
    """The decision with the largest mean over the circumstances that all decisions were evaluated in.

    Decisions with a plan in every replication come first; ties go to fewer devices, then to the first in the frame.
    Where no two decisions met the same circumstances (a sample of a study's space), nothing is compared: the first
    stands for all, `rivals` is 1, and `low` and `high` are those of all points.

    Returns
    -------
    Headline or None
        None if no point has a plan.
    """
    table: Any = frame  # pandas says little of its types
    fine = fine_rows(table)
    if not fine.any():
        return None
    metric = metric_of(table, study, metric)
    fields = field_columns(table, study)
    met = [path for path in fields if is_circumstance(study.world.case, path)]
    cells = group(table, [*fields, "planner"])
    mean, _, _ = cells.intervals(np.where(fine, figures(table, metric), np.nan), study.confidence)
    size = np.zeros(len(mean))
    known = metric_columns(table, study)
    if counted := next((name for name in SIZES if name in known), None):
        size, _, _ = cells.intervals(np.where(fine, figures(table, counted), np.nan), study.confidence)
    without = cells.count(~fine) / cells.count(np.ones(len(table), dtype=bool))
    decided = [c for c in fields if c not in met]
    which = group(table, [*decided, "planner"]).code[cells.first]
    where = group(table, met).code[cells.first]
    good = np.isfinite(mean)
    if not good.any():
        return None
    common = _common(which, where)
    scores: dict[int, tuple[float, float, float, int]] = {}
    for decision in cast("list[int]", np.unique(which[good]).tolist()):
        mine = good & (which == decision) & (np.isin(where, common) if len(common) else True)
        if mine.any():
            lost = 1.0 - float(((1.0 - without) * (which == decision)).sum() / max((which == decision).sum(), 1))
            scores[decision] = (lost, -float(mean[mine].mean()), float(np.nan_to_num(size[mine]).mean()), decision)
    chosen = min(scores, key=lambda d: scores[d]) if len(common) else int(which[np.flatnonzero(good)[0]])
    own = np.flatnonzero(good & (which == chosen))
    cell = min(own.tolist(), key=lambda g: (without[g], size[g], g))
    shown = own if len(common) else np.flatnonzero(good)
    wins = sum(bool(mean[g] >= np.nanmax(mean[where == where[g]])) for g in own if where[g] in common)
    row = int(np.flatnonzero((cells.code == cell) & fine)[0])
    said = [(c, plain(table[c].iloc[row])) for c in fields]
    values = tuple((path, value) for path, value in said if not missing(value))
    point = Point(row, values, str(table["planner"].iloc[row]), int(table["replication"].iloc[row]))
    return Headline(
        point, tuple(decided), tuple(met), float(mean[shown].min()), float(mean[shown].max()),
        len(np.unique(where[shown])), len(np.unique(which)) if len(common) else 1, wins,
    )  # fmt: skip


def _common(which: npt.NDArray[np.int64], where: npt.NDArray[np.int64]) -> Sequence[int]:
    """Circumstances that every decision was evaluated in."""
    count = len(np.unique(which))
    return [int(w) for w in np.unique(where) if len(np.unique(which[where == w])) == count]
