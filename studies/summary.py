"""Statistics on a study's frame: means with t-intervals, paired differences of planners, and the point to draw."""

from __future__ import annotations

# pandas and scipy bring no type stubs.
# pyright: reportMissingTypeStubs=false
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .fields import paths
from .point import Point

if TYPE_CHECKING:
    import pandas as pd

    from .study import Study

__all__ = ["best", "differences", "field_columns", "metric_columns", "summarise"]

FIXED = ("planner", "replication", "status", "notes", "decision", "error")
"""Columns of a frame that are neither fields that vary nor metrics."""

Floats = npt.NDArray[np.float64]


def field_columns(frame: pd.DataFrame, study: Study) -> list[str]:
    """Columns that hold the fields that vary: the axes', in order, and those of questions."""
    known = {*paths(study.world.case), *(a.path for a in study.axes)}
    found = [str(c) for c in frame.columns if c not in FIXED and (c in known or "." in str(c))]
    axes = [a.path for a in study.axes if a.path in found]
    return [*axes, *(c for c in found if c not in axes)]


def metric_columns(frame: pd.DataFrame, study: Study) -> list[str]:
    """Columns that hold metrics: numbers, and no fields that vary."""
    fields = field_columns(frame, study)
    return [str(c) for c in frame.columns if c not in FIXED and c not in fields and frame[c].dtype.kind in "fiub"]


def summarise(frame: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Means over replications with Student's t intervals, a row for each combination of values and planner.

    Only points with a plan count in means. Where some replications have none, or lack a metric, the row's notes say so.

    Parameters
    ----------
    frame : DataFrame
        Of `Session.frame` or `Study.run`.
    study : Study
        Whose points these are; says the confidence.

    Returns
    -------
    DataFrame
        In the order of the frame: the fields that vary; ``planner``; ``replications``, and how many of them are
        ``infeasible`` and ``failed``; for every metric NAME its mean NAME and half the width of its interval
        NAME_half_width (NaN for fewer than two values); ``notes``.
    """
    import pandas as pd

    fields, metrics = field_columns(frame, study), metric_columns(frame, study)
    groups = _groups(frame, [*fields, "planner"])
    status = frame["status"].to_numpy(dtype=object)
    columns: dict[str, Any] = {c: _taken(frame, c, groups.first) for c in [*fields, "planner"]}
    columns["replications"] = groups.count(np.ones(len(frame), dtype=bool))
    columns["infeasible"] = groups.count(status == "infeasible")
    columns["failed"] = groups.count(status == "failed")
    feasible = groups.count(status == "ok")
    missing: dict[int, list[tuple[str, int, int]]] = {}
    for name in metrics:
        values = np.where(status == "ok", frame[name].to_numpy(dtype=np.float64), np.nan)
        columns[name], columns[f"{name}_half_width"], n = groups.intervals(values, study.confidence)
        for g in np.flatnonzero(n < feasible).tolist():
            missing.setdefault(g, []).append((name, int(n[g]), int(feasible[g])))
    columns["notes"] = _notes(frame, groups, columns, missing)
    return pd.DataFrame(columns)


def differences(frame: pd.DataFrame, study: Study, metric: str | None = None) -> pd.DataFrame:
    """Paired differences of every planner to the study's first one, on common random numbers.

    The same values and the same replication make a pair; a replication that either planner has no figure for is left
    out, and counted.

    Parameters
    ----------
    frame : DataFrame
        Of `Session.frame` or `Study.run`.
    study : Study
        Whose points these are.
    metric : str, optional
        What is compared; attainment, or the first metric of a world without it.

    Returns
    -------
    DataFrame
        A row for each combination of values and each planner but the first: the fields; ``planner``; ``baseline``;
        ``metric``; ``difference`` (planner minus baseline), ``half_width``, ``low``, ``high``; ``differs`` (the
        interval excludes 0); ``pairs`` and ``left_out``; ``variance_reduction`` (variance of the difference of
        independent samples over that of the pairs; NaN where it is not known); ``notes``.

    Raises
    ------
    InputError
        On an unknown metric.
    """
    import pandas as pd

    metric = _metric(frame, study, metric)
    fields = field_columns(frame, study)
    baseline = next(iter(study.planners))
    places = _groups(frame, fields)
    values = np.where(frame["status"].to_numpy(dtype=object) == "ok", frame[metric].to_numpy(np.float64), np.nan)
    planner, replication = frame["planner"].to_numpy(dtype=object), frame["replication"].to_numpy()
    cells: dict[tuple[int, str], dict[int, float]] = {}
    for code, name, r, value in zip(places.code.tolist(), planner, replication.tolist(), values.tolist(), strict=True):
        cells.setdefault((code, name), {})[int(r)] = value
    found: list[tuple[int, str, list[float], list[float], int]] = []
    for (code, name), mine in cells.items():
        theirs = cells.get((code, baseline))
        if name == baseline or theirs is None:
            continue
        every = sorted({*mine, *theirs})
        both = [r for r in every if np.isfinite(mine.get(r, np.nan)) and np.isfinite(theirs.get(r, np.nan))]
        found.append((code, name, [mine[r] for r in both], [theirs[r] for r in both], len(every) - len(both)))
    found.sort(key=lambda row: row[0])  # stable: planners stay in the order of the frame
    rows = [_paired(mine, theirs, left_out, study.confidence) for _, _, mine, theirs, left_out in found]
    first = places.first[np.array([code for code, *_ in found], dtype=np.int64)]
    return pd.DataFrame(
        {
            **{c: _taken(frame, c, first) for c in fields},
            "planner": [name for _, name, *_ in found],
            "baseline": baseline,
            "metric": metric,
            **{name: [getattr(row, name) for row in rows] for name in _Paired.__dataclass_fields__},
        }
    )


def best(frame: pd.DataFrame, study: Study, metric: str | None = None) -> Point | None:
    """The point that a report draws: the first one with a plan of the values and planner with the largest mean.

    Those with a plan in every replication come first; ties go to fewer devices, then to the first in the frame. None
    if no point has a plan.
    """
    fine = frame["status"].to_numpy(dtype=object) == "ok"
    if not fine.any():
        return None
    metric = _metric(frame, study, metric)
    fields = field_columns(frame, study)
    groups = _groups(frame, [*fields, "planner"])
    without = groups.count(~fine) / groups.count(np.ones(len(frame), dtype=bool))
    means, _, _ = groups.intervals(np.where(fine, frame[metric].to_numpy(np.float64), np.nan), study.confidence)
    size = np.zeros(len(means))
    if "devices" in metric_columns(frame, study):
        size, _, _ = groups.intervals(np.where(fine, frame["devices"].to_numpy(np.float64), np.nan), study.confidence)
    known = np.flatnonzero(np.isfinite(means)).tolist()
    if not known:
        return None
    chosen = min(known, key=lambda g: (without[g], -means[g], size[g], g))
    row = int(np.flatnonzero((groups.code == chosen) & fine)[0])
    said = [(c, _plain(frame[c].iloc[row])) for c in fields]
    values = tuple((path, value) for path, value in said if not _missing(value))
    return Point(row, values, str(frame["planner"].iloc[row]), int(frame["replication"].iloc[row]))


@dataclass(frozen=True)
class _Paired:
    difference: float
    half_width: float
    low: float
    high: float
    differs: bool
    pairs: int
    left_out: int
    variance_reduction: float
    notes: str


def _paired(mine: Sequence[float], theirs: Sequence[float], left_out: int, confidence: float) -> _Paired:
    from ..simulator.metrics import paired_difference

    notes = f"{left_out} of {left_out + len(mine)} replications left out: one side has no figure" if left_out else ""
    nan = float("nan")
    if not mine:
        return _Paired(nan, nan, nan, nan, False, 0, left_out, nan, notes)
    e = paired_difference(mine, theirs, confidence)
    spread = float(np.var(np.subtract(mine, theirs)))
    reduction = float(np.var(mine) + np.var(theirs)) / spread if len(mine) > 1 and spread > 0 else nan
    return _Paired(e.mean, e.half_width, e.low, e.high, e.differs_from_zero, e.n, left_out, reduction, notes)


@dataclass(frozen=True)
class _Groups:
    """Rows that belong together.

    Parameters
    ----------
    code : ndarray of int, shape (rows,)
        Group of each row, numbered in order of first appearance.
    first : ndarray of int, shape (groups,)
        First row of each group.
    """

    code: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]

    def count(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Rows of each group in a mask, shape (groups,)."""
        return np.bincount(self.code[mask], minlength=len(self.first))

    def intervals(self, values: Floats, confidence: float) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
        """Mean, half width of the t-interval, and number of the finite values of each group, all at once."""
        from scipy.special import stdtrit

        known = np.isfinite(values)
        code, x, size = self.code[known], values[known], len(self.first)
        n = np.bincount(code, minlength=size)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(code, weights=x, minlength=size) / n
            square = np.bincount(code, weights=(x - mean[code]) ** 2, minlength=size)
            deviation = np.sqrt(square / np.where(n > 1, n - 1, np.nan))
            quantile = np.asarray(stdtrit(np.maximum(n - 1, 1), 0.5 + confidence / 2), dtype=np.float64)
            return mean, quantile * deviation / np.sqrt(n), n


def _groups(frame: pd.DataFrame, columns: Sequence[str]) -> _Groups:
    """Group rows by columns, whatever is in them, in order of first appearance; missing values are alike."""
    number: dict[tuple[object, ...], int] = {}
    first: list[int] = []
    keys = [[_key(v) for v in frame[c]] for c in columns]
    code = np.empty(len(frame), dtype=np.int64)
    for row, key in enumerate(zip(*keys, strict=True) if keys else ((),) * len(frame)):
        if key not in number:
            number[key] = len(first)
            first.append(row)
        code[row] = number[key]
    return _Groups(code, np.array(first, dtype=np.int64))


def _key(value: Any) -> object:
    """A hashable stand-in: equal for equal values, the same for all that are missing."""
    if isinstance(value, str | int | bool):
        return value
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=repr)
    return None if _missing(value) else value


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _plain(value: Any) -> Any:
    """A plain Python value where pandas holds numpy's."""
    return value.item() if isinstance(value, np.generic) else value


def _taken(frame: pd.DataFrame, column: str, rows: npt.NDArray[np.int64]) -> Any:
    return frame[column].iloc[rows].reset_index(drop=True)


def _metric(frame: pd.DataFrame, study: Study, metric: str | None) -> str:
    known = metric_columns(frame, study)
    if metric is None:
        return "attainment" if "attainment" in known or not known else known[0]
    if metric not in known:
        near = difflib.get_close_matches(metric, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"metrics: {', '.join(known) or 'none'}"
        raise InputError(f"metric: unknown metric {metric!r}; {hint}")
    return metric


def _notes(frame: pd.DataFrame, groups: _Groups, columns: dict[str, Any], missing: _Missing) -> list[str]:
    """What a reader must know of each group: points without a plan, metrics that some lack, and the points' own notes.

    Notes that begin alike up to a colon are said once, with the first one's figures and how many points say so.
    """
    told: list[dict[str, tuple[str, int]]] = [{} for _ in groups.first]
    for g, text in zip(groups.code.tolist(), frame["notes"], strict=True):
        for note in _split(text):
            head = note.partition(":")[0]
            first, count = told[g].get(head, (note, 0))
            told[g][head] = (first, count + 1)
    found: list[str] = []
    for g, own in enumerate(told):
        n, lines = int(columns["replications"][g]), list[str]()
        for what in ("infeasible", "failed"):
            if columns[what][g]:
                lines.append(f"{columns[what][g]} of {n} replications {what}, not in the means")
        short = [f"{name} in {have} of {of}" for name, have, of in missing.get(g, ()) if have]
        lines += [f"some replications lack a metric: {', '.join(short)}"] if short else []
        lines += [note if n == 1 else f"{note} ({count} of {n} replications)" for note, count in own.values()]
        found.append("; ".join(lines))
    return found


_Missing = Mapping[int, Sequence[tuple[str, int, int]]]
"""Group -> metrics that not all of its points with a plan have: name, how many have it, how many there are."""


def _split(text: Any) -> list[str]:
    """The notes of a cell, which stand behind one another; a piece without a colon belongs to the one before."""
    notes: list[str] = []
    for piece in text.split("; ") if isinstance(text, str) and text else ():
        if notes and ":" not in piece:
            notes[-1] += f"; {piece}"
        else:
            notes.append(piece)
    return notes
