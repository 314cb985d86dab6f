"""What a report is about: a study's points, their summary, and which rows belong to the design."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...worlds import Case
from ...worlds.fields import paths, value_at
from ...worlds.look.figures import Style, styles
from ..headline import Headline, headline
from ..point import Point
from ..questions.answer import Answer
from ..study import Study
from ..summary import differences, field_columns, metric_columns, summarise
from .words import cell, plain, short_names, sized

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["Frame", "Results", "gather", "internal"]

Frame = Any
"""A pandas frame. Untyped, for pandas' annotations make a union of half the library of every cell."""


@dataclass(frozen=True)
class Results:
    """A study's results, in plain cells: numbers, texts, and JSON for what is neither.

    Parameters
    ----------
    study : Study
        What was asked.
    points : DataFrame
        A row per point.
    summary : DataFrame
        A row per values and planner: means and half widths, and `status`, `reason`, `decision`.
    answers : sequence of Answer
        What was found, in the study's order.
    paths, metrics : tuple of str
        Which columns are fields that vary, and which were measured.
    headline : Headline or None
        The best decision under the same circumstances; None if no point has a plan.
    paired : DataFrame
        Differences of each planner's attainment to the first one's, in the design: `difference` and its half width.
    """

    study: Study
    points: Frame
    summary: Frame
    answers: Sequence[Answer]
    paths: tuple[str, ...]
    metrics: tuple[str, ...]
    headline: Headline | None
    paired: Frame

    @cached_property
    def names(self) -> dict[str, str]:
        """Path -> how figures and tables call it."""
        known = [p for p in dict.fromkeys([*self.paths, *(a.path for a in self.study.axes)]) if not internal(p)]
        own = set(paths(self.study.world.case))  # whose names no metric has; an option of a planner may have one
        short = {
            path: (name if path in own or name not in self.metrics else path).replace("_", " ")
            for path, name in short_names(known).items()
        }
        return {path: path for path in self.paths} | short | {"planner": "planner"}

    @cached_property
    def looks(self) -> dict[str, Style]:
        """Planner -> colour and mark, the same in every figure."""
        told = [a.planner for a in self.answers]  # a plan file has an answer, too
        return styles(list(dict.fromkeys([*self.study.planners, *self.summary["planner"], *told])))

    @cached_property
    def design(self) -> Frame:
        """Rows of `summary` that belong to the design, so that a figure's other fields are the base case's."""
        return _design(self.summary, self.study, self.paths)

    def along(self, path: str) -> Frame:
        """Rows of `summary` that differ from the base case in this field alone, such as a question's."""
        return _design(self.summary, self.study, self.paths, [path])

    def say(self, point: Point) -> str:
        """A point's values in words: ``"devices 8, cv 4"``; empty for the base case."""
        said = [(path, value) for path, value in point.values if value is not None and not internal(path)]
        return ", ".join(f"{self.names.get(path, path)} {plain(sized(path, cell(value)), 4)}" for path, value in said)

    def row_of(self, point: Point) -> Any:
        """The summary row of a point; None if there is none."""
        case = self.study.case(point)
        found = self.summary[self.summary["planner"] == point.planner]
        for path in self.paths:
            mine = cell(_at(case, path))
            found = found[found[path].isna() if mine is None or mine != mine else found[path] == mine]
        return found.iloc[0] if len(found) else None


def _at(case: Case, path: str) -> Any:
    """The value of a field; None where the case does not say it, as `Session.frame` has it."""
    try:
        return value_at(case, path)
    except (AttributeError, KeyError):
        return None


def internal(path: str) -> bool:
    """Whether a field is one that questions set to say which case a plan was made for: of no use to most readers."""
    return path.startswith("planner.planned_for.")


def _design(rows: Frame, study: Study, paths: Sequence[str], axes: Sequence[str] | None = None) -> Frame:
    axes = [a.path for a in study.axes if a.path in rows] if axes is None else list(axes)
    keep = rows[axes].notna().all(axis=1)
    for path in (p for p in paths if p not in axes):
        keep &= rows[path].isna() | (rows[path] == cell(_at(study.base, path)))
    return rows[keep]


def gather(session: Session) -> Results:
    """Everything that a report of this session needs."""
    raw, study = session.frame(), session.study
    paths, metrics = tuple(field_columns(raw, study)), tuple(metric_columns(raw, study))
    points, summary = _cells(raw, paths), _cells(summarise(raw, study), paths)
    summary = _with_reasons(summary, points, list(paths))
    paired = summary[:0]
    if "attainment" in metrics and len(study.planners) > 1:
        paired = _cells(differences(raw, study), paths).rename(columns={"half_width": "difference_half_width"})
        paired = _design(paired.assign(status="ok"), study, paths)
    return Results(study, points, summary, tuple(session.answers), paths, metrics, headline(raw, study), paired)


def _cells(frame: Frame, paths: Sequence[str]) -> Frame:
    out = frame.reset_index() if frame.index.name else frame.copy()
    for path in paths:
        if path in out and out[path].dtype == object:
            out[path] = [cell(value) for value in out[path]]
        if path in out and out[path].isna().all():  # of whatever type pandas takes nothing for
            out[path] = out[path].astype(float)
    return out


def _with_reasons(summary: Frame, points: Frame, paths: list[str]) -> Frame:
    """`summary` with the status, the first error and the first decision of the points behind each row."""
    key = [*paths, "planner"]
    found = points.groupby(key, sort=False, dropna=False)
    told = found.agg(
        status=("status", _status),
        reason=("error", lambda texts: next((t for t in texts if t), "")),
        decision=("decision", lambda texts: next((t for t in texts if t), "")),
    ).reset_index()
    return summary.merge(told, on=key, how="left", suffixes=("", "_of_points"))


def _status(found: Frame) -> str:
    """``ok``, ``infeasible``, ``failed``, or ``partly …`` where replications differ."""
    known = set(found)
    bad = "failed" if "failed" in known else "infeasible" if "infeasible" in known else "ok"
    return f"partly {bad}" if "ok" in known and bad != "ok" else bad
