"""Statistics on a study's frame: means with t-intervals, and paired differences of planners."""

from __future__ import annotations

# pandas and scipy bring no type stubs.
# pyright: reportMissingTypeStubs=false
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..worlds.fields import paths
from ..worlds.names import COLUMNS
from .grouping import Floats, Groups, group
from .point import Point

if TYPE_CHECKING:
    import pandas as pd

    from .study import Study

__all__ = ["best", "differences", "field_columns", "figures", "fine_rows", "metric_columns", "metric_of", "summarise"]


def field_columns(frame: pd.DataFrame, study: Study) -> list[str]:
    """Columns that hold the fields that vary: the axes', in order, and those of questions."""
    table: Any = frame  # pandas says little of its types
    known = {*paths(study.world.case), *(a.path for a in study.axes)}
    found = [str(c) for c in table.columns if c not in COLUMNS and (c in known or "." in str(c))]
    axes = [a.path for a in study.axes if a.path in found]
    return [*axes, *(c for c in found if c not in axes)]


def metric_columns(frame: pd.DataFrame, study: Study) -> list[str]:
    """Columns that hold metrics: numbers, and no fields that vary."""
    table: Any = frame  # pandas says little of its types
    fields = field_columns(table, study)
    return [str(c) for c in table.columns if c not in COLUMNS and c not in fields and table[c].dtype.kind in "fiub"]


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

    table: Any = frame  # pandas says little of its types
    fields, metrics = field_columns(table, study), metric_columns(table, study)
    groups = group(table, [*fields, "planner"])
    status = table["status"].to_numpy(dtype=object)
    columns: dict[str, Any] = {c: _taken(table, c, groups.first) for c in [*fields, "planner"]}
    columns["replications"] = groups.count(np.ones(len(table), dtype=bool))
    columns["infeasible"] = groups.count(status == "infeasible")
    columns["failed"] = groups.count(status == "failed")
    feasible = groups.count(status == "ok")
    lacking: dict[int, list[tuple[str, int, int]]] = {}
    for name in metrics:
        values = np.where(status == "ok", figures(table, name), np.nan)
        columns[name], columns[f"{name}_half_width"], n = groups.intervals(values, study.confidence)
        for g in np.flatnonzero(n < feasible).tolist():
            lacking.setdefault(g, []).append((name, int(n[g]), int(feasible[g])))
    columns["notes"] = _notes(table, groups, columns, lacking)
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

    table: Any = frame  # pandas says little of its types
    metric = metric_of(table, study, metric)
    fields = field_columns(table, study)
    baseline = next(iter(study.planners))
    places = group(table, fields)
    values = np.where(fine_rows(table), figures(table, metric), np.nan)
    planner, replication = table["planner"].to_numpy(dtype=object), table["replication"].to_numpy()
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
    found.sort(key=lambda row: row[0])  # stable: planners stay in the order of the table
    rows = [_paired(mine, theirs, left_out, study.confidence) for _, _, mine, theirs, left_out in found]
    first = places.first[np.array([code for code, *_ in found], dtype=np.int64)]
    return pd.DataFrame(
        {
            **{c: _taken(table, c, first) for c in fields},
            "planner": [name for _, name, *_ in found],
            "baseline": baseline,
            "metric": metric,
            **{name: [getattr(row, name) for row in rows] for name in _Paired.__dataclass_fields__},
        }
    )


def best(frame: pd.DataFrame, study: Study, metric: str | None = None) -> Point | None:
    """The point that a report draws: the best decision under the same circumstances, in the first of them.

    None if no point has a plan. See `headline.headline`.
    """
    from .headline import headline  # which stands on this

    found = headline(frame, study, metric)
    return None if found is None else found.point


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


def _taken(frame: Any, column: str, rows: npt.NDArray[np.int64]) -> Any:
    return frame[column].iloc[rows].reset_index(drop=True)


def fine_rows(frame: Any) -> npt.NDArray[np.bool_]:
    """Points with a plan, shape (rows,)."""
    return np.asarray(frame["status"].to_numpy(dtype=object) == "ok", dtype=bool)


def figures(frame: Any, metric: str) -> Floats:
    """A metric of each point, shape (rows,); NaN where it has none, or no point has."""
    if metric not in frame.columns:
        return np.full(len(frame), np.nan)
    return np.asarray(frame[metric].to_numpy(dtype=np.float64))


def metric_of(frame: Any, study: Study, metric: str | None) -> str:
    """A metric by name; not given: attainment, or the first metric of a world without it.

    Raises
    ------
    InputError
        On an unknown one.
    """
    known = metric_columns(frame, study)
    if metric is None:
        return "attainment" if "attainment" in known or not known else known[0]
    if metric not in known:
        near = difflib.get_close_matches(metric, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"metrics: {', '.join(known) or 'none'}"
        raise InputError(f"metric: unknown metric {metric!r}; {hint}")
    return metric


def _notes(frame: Any, groups: Groups, columns: dict[str, Any], lacking: _Lacking) -> list[str]:
    """What a reader must know of each group: points without a plan, metrics that some lack, and the points' own notes.

    Notes that begin alike up to a colon are said once, with the first one's figures and how many points say so.
    """
    told = [dict[str, tuple[str, int]]() for _ in groups.first]
    for g, text in zip(cast("list[int]", groups.code.tolist()), frame["notes"], strict=True):
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
        short = [f"{name} in {have} of {of}" for name, have, of in lacking.get(g, ()) if have]
        lines += [f"some replications lack a metric: {', '.join(short)}"] if short else []
        lines += [note if n == 1 else f"{note} ({count} of {n} replications)" for note, count in own.values()]
        found.append("; ".join(lines))
    return found


_Lacking = Mapping[int, Sequence[tuple[str, int, int]]]
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
