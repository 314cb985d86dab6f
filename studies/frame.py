"""From a study's rows to a tidy frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..worlds import Case
from ..worlds.fields import value_at
from ..worlds.outcome import Outcome
from .point import Point

if TYPE_CHECKING:
    import pandas as pd

    from .study import Study

__all__ = ["frame_of"]


def frame_of(study: Study, rows: Iterable[tuple[Point, Outcome]]) -> pd.DataFrame:
    """A row per point: values that vary, planner, replication, status, metrics, notes, decision, error.

    A field that varies among other points has the base case's value; a metric that a point does not know is NaN.
    """
    import pandas as pd

    held = list(rows)
    paths = dict.fromkeys(a.path for a in study.axes) | dict.fromkeys(p for r, _ in held for p, _ in r.values)
    metrics = dict.fromkeys(name for _, o in held for name in o.metrics)
    bases = {label: study.case(Point(0, (), label)) for label in study.planners}
    defaults = {label: {path: _said_at(base, path) for path in paths} for label, base in bases.items()}
    columns: dict[str, list[Any]] = {path: [] for path in paths}
    for point, _ in held:
        for path, value in (defaults[point.planner] | dict(point.values)).items():
            columns[path].append(value)
    columns["planner"] = [p.planner for p, _ in held]
    columns["replication"] = [p.replication for p, _ in held]
    columns["status"] = [o.status for _, o in held]
    columns |= {name: [o.metrics.get(name, float("nan")) for _, o in held] for name in metrics}
    columns["notes"] = ["; ".join(o.notes) for _, o in held]
    columns["decision"] = [o.decision for _, o in held]
    columns["error"] = [o.error for _, o in held]
    return pd.DataFrame(columns, index=pd.Index([p.index for p, _ in held], name="point", dtype="int64"))


def _said_at(case: Case, path: str) -> Any:
    """The value of a field; None where the case does not say it, such as an option of another planner."""
    try:
        return value_at(case, path)
    except (AttributeError, KeyError):
        return None
