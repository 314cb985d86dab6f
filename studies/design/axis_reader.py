"""From the axes and points of a study file to checked values: each one by itself, before any work."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ...errors import InputError
from ...wording import dotted
from ...worlds import Case
from ...worlds.fields import checked, find_field, holds_whole_numbers, place, steps, value_at
from ...worlds.file.errors import Location
from ..file.document import RangeEntry
from .axes import Axis, Values
from .ranges import Range

__all__ = ["AxisReader"]

LONGEST = 1_000_000
"""Most values on one axis."""
SAMPLE = 1000
"""A range of more values than this is checked at so many at each of its ends."""

WRONG: Any = object()
"""In place of a value that was reported."""

Report = Callable[[Location, str], None]


class AxisReader:
    """Reads axes and points against the base case.

    Parameters
    ----------
    kind : type
        The world's case.
    said : mapping
        What the file says of the base case, the first planner's fields included.
    report : callable
        Takes the path to each thing that is wrong, and what is.
    """

    def __init__(self, kind: type[Case], said: Mapping[str, Any], report: Report) -> None:
        self.kind, self.said, self.report = kind, said, report
        self.whole_case = True
        """Whether what is wrong with a value only beside other fields is reported; not where the base case is wrong."""

    def field(self, name: str, loc: Location) -> str | None:
        """The path of a field that may vary; None, and a report, if there is none."""
        if name in ("planner", "planners", "name", "label", "planner.name", "planner.label"):
            self.report(loc, f"no field {name!r}; planners are compared by listing them under planners:")
            return None
        try:
            return find_field(self.kind, name)
        except InputError as error:
            self.report(loc, str(error))
            return None

    def fields(self, names: Sequence[str], loc: Location) -> dict[str, str]:
        """Name -> path of fields that vary together; a field stands there once."""
        found: dict[str, str] = {}
        for name in names:
            path = self.field(name, (*loc, name))
            if path is None:
                continue
            rival = next(
                (n for n, p in found.items() if f"{p}.".startswith(f"{path}.") or path.startswith(f"{p}.")), ""
            )
            if rival:
                self.report((*loc, name), f"{name!r} and {rival!r} are the same field ({path}); keep one")
            else:
                found[name] = path
        return found

    def value(self, path: str, value: Any, loc: Location) -> Any:
        """A value of a field by itself, converted to the field's type; `WRONG`, and a report, if it is wrong."""
        built, wrong = checked(self.kind, place(self.said, steps(self.kind, path), value))
        if built is not None:
            return value_at(built, path)
        at = steps(self.kind, path)
        own = [(where, what) for where, what in wrong if where[: len(at)] == at]
        for where, what in own:
            self.report((*loc, *where[len(at) :]), what)
        if not own and self.whole_case:
            for where, what in wrong:
                self.report(loc, f"{dotted(where) or 'case'}: {what} (with {path}: {value})")
        return WRONG if own else value

    def row(self, names: Mapping[str, str], row: Mapping[str, Any], loc: Location) -> Values | None:
        """Values of fields that are set together; None, and a report, if they make no case."""
        said = dict(self.said)
        for name, path in names.items():
            said = place(said, steps(self.kind, path), row[name])
        built, wrong = checked(self.kind, said)
        if built is not None:
            return tuple((path, value_at(built, path)) for path in names.values())
        at = {steps(self.kind, path): name for name, path in names.items()}
        for where, what in wrong:
            name = next((n for s, n in at.items() if where[: len(s)] == s), None)
            if name is not None:
                self.report((*loc, name), what)
            elif self.whole_case:
                self.report(loc, f"{dotted(where) or 'case'}: {what}")
        return None

    def listed(self, path: str, values: Sequence[Any], loc: Location, distinct: bool) -> Axis | None:
        """An axis given by its values."""
        if not values:
            self.report(loc, "an axis without values makes an empty grid; give at least one, or leave the axis out")
            return None
        found: list[Any] = []
        seen: dict[str, int] = {}
        for i, value in enumerate(values):
            found.append(self.value(path, value, (*loc, i)))
            if found[-1] is WRONG or not distinct:
                continue
            first = seen.setdefault(json.dumps(found[-1], sort_keys=True), i)
            if first < i:
                self.report((*loc, i), f"stands twice on this axis (got {value!r}, as value {first + 1} is); keep one")
        return Axis(path, tuple(found))

    def ranged(self, path: str, entry: RangeEntry, loc: Location, sampled: bool) -> Axis | None:
        """An axis given by its ends."""
        low = self.value(path, entry.start, (*loc, "from"))
        high = self.value(path, entry.to, (*loc, "to"))
        if not _is_number(low) or not _is_number(high):
            if low is not WRONG and high is not WRONG:
                self.report(loc, f"a range is for numbers (got {entry.start!r} to {entry.to!r}); list the values")
            return None
        if not low < high:
            self.report(
                loc, f"from must be below to (got {entry.start!r} to {entry.to!r}); swap them, or list the values"
            )
            return None
        if entry.scale == "log" and not low > 0:
            self.report((*loc, "from"), f"a log scale starts above 0 (got {low}); raise it, or leave scale: log out")
            return None
        whole = holds_whole_numbers(self.kind, path)
        if whole is None:  # a planner's option: as it is written
            whole = (
                isinstance(low, int) and isinstance(high, int) and (entry.step is None or isinstance(entry.step, int))
            )
            whole = whole and (
                entry.points is None or (entry.scale == "linear" and not (high - low) % (entry.points - 1))
            )
        found = self._range(path, entry, low, high, whole, loc, sampled)
        if found is None or not self._distinct(found, loc):
            return None
        for i in _sample(len(found)):
            self.value(path, found[i], loc)
        return Axis(path, found)

    def _range(
        self, path: str, entry: RangeEntry, low: Any, high: Any, whole: bool, loc: Location, sampled: bool
    ) -> Range | None:
        if entry.step is not None:
            step = self.value(path, entry.step, (*loc, "step")) if isinstance(entry.step, str) else entry.step
            if not _is_number(step) or not step > 0 or (whole and step != int(step)):
                need = "a whole number above 0" if whole else "a number above 0"
                self.report((*loc, "step"), f"should be {need} (got {entry.step!r})")
                return None
            count = math.floor((high - low) / step * (1 + 1e-12) + 1e-9) + 1
            step = int(step) if whole else step
        elif entry.points is not None:
            step, count = None, entry.points
        elif sampled:
            return Range(low, high, 2, entry.scale, whole, sampled=True)
        else:
            self.report(loc, f"a range needs points or step: {{from: {low}, to: {high}, points: 5}}")
            return None
        if count > LONGEST:
            self.report(loc, f"an axis has at most {LONGEST:,} values (got {count:,}); take fewer")
            return None
        return Range(low, high, count, entry.scale, whole, step)

    def _distinct(self, found: Range, loc: Location) -> bool:
        """Whether no two values round to the same. On a log scale the gaps grow, so only the first ones can close."""
        if not found.whole:
            equal = len(found) > 1 and found[0] == found[1]
        elif found.scale == "linear":
            equal = len(found) > found.high - found.low + 1
        else:
            gaps = (b - a for a, b in pairwise(found))
            equal = next((gap for gap in gaps if gap != 1), 1) == 0
        if not equal:
            return True
        what = "whole numbers" if found.whole else "numbers of 12 digits"
        self.report(
            loc, f"{len(found)} points from {found.low} to {found.high} are not all different {what}; take fewer"
        )
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _sample(count: int) -> Sequence[int]:
    if count <= 2 * SAMPLE:
        return range(count)
    return [*range(SAMPLE), *range(count - SAMPLE, count)]
