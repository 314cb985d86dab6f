"""From what a study file says to a checked study: everything that is wrong with it at once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from ...errors import InputError
from ...wording import nearest
from ...worlds import Case, World
from ...worlds.fields import checked, find_field, paths, place, steps
from ...worlds.file.document import YamlDocument, problems
from ...worlds.file.errors import Location, unknown_key
from ...worlds.registry import WORLDS, world
from ..design.axes import Axis, Values
from ..design.axis_reader import AxisReader
from ..design.designs import Design, Grid, LatinHypercube, Listed, Zipped
from .document import LatinHypercubeEntry, RangeEntry, StudyDocument, read_form

__all__ = ["Parts", "build"]

MOST_ROWS = 10_000
"""Of zipped axes, so many rows are checked as a whole before work starts."""
MOST = 10**15
"""More points than this are a mistake."""


@dataclass(frozen=True)
class Parts:
    """What a study is made of."""

    document: StudyDocument
    world: World
    base: Case
    planners: Mapping[str, Mapping[str, Any]]
    axes: tuple[Axis, ...]
    design: Design


def build(document: YamlDocument) -> Parts:
    """Check a study file.

    Raises
    ------
    InputError
        All that is wrong, each with its line.
    """
    where = document.where
    if "world" in document.data and "study" not in document.data:
        raise InputError(f"{where}: is a case; a study says study: 1, too. Of a case: meshwright simulate {where}")
    builder = _Builder(document)
    parts = builder.build()
    if parts is None or builder.found:
        raise problems(document, builder.found)
    return parts


class _Builder:
    """Reads one file; keeps what is wrong on the way."""

    def __init__(self, document: YamlDocument) -> None:
        self.data = document.data
        self.found: list[tuple[Location, str]] = []

    def report(self, loc: Location, what: str) -> None:
        self.found.append((loc, what))

    def build(self) -> Parts | None:
        form = read_form(self.data, self.report)
        if form.world not in WORLDS:
            near = nearest(form.world, WORLDS)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(WORLDS)}"
            self.report(("world",), f"unknown world (got {form.world!r}); {hint}")
            return None
        here = world(form.world)
        said = self._base(here.case)
        planners = self._planners(form)
        first = next(iter(planners.values()), {"name": ""})
        reader = AxisReader(here.case, {**said, "planner": first}, self.report)
        reader.whole_case = False  # until the base case is known to be right
        varied = self._varied(form, reader)
        filled, missing = self._filled(here.case, reader.said, varied)
        if checked(here.case, filled)[0] is None and checked(here.case, reader.said)[0] is not None:
            filled, missing = dict(reader.said), set[Location]()  # complete; it is an axis that does not go with it
        base = self._cases(here.case, filled, planners, missing)
        if form.points is None:
            reader.said = filled
        zipped = form.design == "list"
        reader.whole_case = base is not None and not zipped  # zipped values belong together
        axes = self._axes(form, reader, varied)
        reader.whole_case = base is not None
        rows = self._rows(form, reader)
        design = self._design(form, axes, rows)
        if isinstance(design, Zipped) and not self.found:
            self._check_rows(reader, design)
        if form.points is not None:
            axes = _axes_of(rows)
        if form.replications > 1 and any(a.path == "seed" for a in axes):
            what = f"seeds are an axis already (got {form.replications} replications too); leave one of the two out"
            self.report(("replications",), what)
        if base is None or design is None:
            return None
        combinations = math.prod(len(a.values) for a in axes) if isinstance(design, Grid) else len(design)
        size = combinations * len(planners) * form.replications
        if size > MOST:
            self.report((), f"the study has {size:.1e} points, which no machine evaluates; take fewer")
            return None
        return Parts(form, here, base, planners, axes, design)

    def _base(self, kind: type[Case]) -> dict[str, Any]:
        """What the file says of the base case."""
        own = [name for name in kind.model_fields if name != "planner"]
        known = [*StudyDocument.model_fields, *own]
        for name in self.data:
            if name not in known:
                self.report((name,), _belongs(kind, name, ()) or unknown_key(name, known))
        said = {name: self.data[name] for name in own if name in self.data}
        seed = self.data.get("seed", 0)
        return {**said, "seed": seed if isinstance(seed, int) and seed >= 0 else 0}

    def _planners(self, form: StudyDocument) -> dict[str, dict[str, Any]]:
        """Label -> what the file says of each planner."""
        found: dict[str, dict[str, Any]] = {}
        if not form.planners:
            self.report(("planners",), "a study needs a planner; list at least one, or leave the key out for alpaserve")
        for i, entry in enumerate(form.planners):
            said = {"name": entry} if isinstance(entry, str) else dict(entry)
            if not said.get("name") and said.get("plan") is not None:
                said["name"] = "plan"
            if not said.get("name"):
                self.report(
                    ("planners", i, "name"), "is missing; name a planner, path/to/file.py:name, or a plan: FILE"
                )
                said["name"] = "?"
            label = str(said.get("label") or said["name"])
            if label in found:
                what = f"planner {label!r} stands twice; give each a label of its own: {{name: {label}, label: …}}"
                self.report(("planners", i), what)
                continue
            found[label] = said
        return found

    def _varied(self, form: StudyDocument, reader: AxisReader) -> dict[str, str]:
        """Name -> path of each axis."""
        if form.points is None:
            return reader.fields(list(form.axes), ("axes",))
        for other in ("axes", "design"):
            if other in self.data:
                self.report((other,), "points says all combinations already; leave one of the two out")
        if not form.points:
            self.report(("points",), "no points: an empty grid; list at least one, or leave the key out")
        return {}

    def _filled(
        self, kind: type[Case], said: Mapping[str, Any], varied: Mapping[str, str]
    ) -> tuple[dict[str, Any], set[Location]]:
        """The base case: what the file leaves to the axes (or points) has its first value there."""
        first: dict[str, Any] = {}
        axes = self.data.get("axes")
        for name, path in varied.items():
            entry = cast("dict[str, Any]", axes)[name]
            if isinstance(entry, list) and entry:
                first[path] = entry[0]
            elif isinstance(entry, dict) and "from" in entry:
                first[path] = entry["from"]
            else:
                first[path] = None
        points = self.data.get("points")
        if isinstance(points, list) and points and isinstance(points[0], dict):
            for name, value in cast("dict[str, Any]", points[0]).items():
                try:
                    first[find_field(kind, name)] = value
                except InputError:
                    continue
        filled, missing = dict(said), set[Location]()
        for path, value in first.items():
            at = steps(kind, path)
            if not _holds(said, at):
                filled = place(filled, at, value)
                missing.add(at)
        return filled, missing

    def _cases(
        self, kind: type[Case], filled: Mapping[str, Any], planners: Mapping[str, Any], missing: set[Location]
    ) -> Case | None:
        """The base case, if it is right under every planner."""
        base: list[Case] = []
        for i, fields in enumerate(planners.values()):
            built, wrong = checked(kind, {**filled, "planner": fields})
            base += [] if built is None else [built]
            for loc, what in wrong:
                if loc[:1] == ("planner",):
                    self.report(("planners", i, *loc[1:]), what)
                elif i == 0 and not any(loc[: len(at)] == at for at in missing):  # else it is an axis that is wrong
                    if what.startswith("unknown key"):
                        what = _belongs(kind, str(loc[-1]), loc[:-1]) or what
                    self.report(loc, what)
        return base[0] if base and len(base) == len(planners) else None

    def _axes(self, form: StudyDocument, reader: AxisReader, varied: Mapping[str, str]) -> tuple[Axis, ...]:
        sampled = isinstance(form.design, LatinHypercubeEntry)
        found: list[Axis | None] = []
        for name, path in varied.items():
            entry, loc = form.axes[name], ("axes", name)
            if isinstance(entry, RangeEntry):
                found.append(reader.ranged(path, entry, loc, sampled))
            else:
                found.append(reader.listed(path, entry, loc, distinct=form.design != "list"))
        return tuple(axis for axis in found if axis is not None)

    def _rows(self, form: StudyDocument, reader: AxisReader) -> list[Values]:
        """The combinations that the file lists."""
        found: list[Values] = []
        seen: dict[str, int] = {}
        for i, row in enumerate(cast("Sequence[Mapping[str, Any] | str | float | None]", form.points or ())):
            loc: Location = ("points", i)
            if not isinstance(row, Mapping):
                self.report(loc, f"should be a mapping such as {{devices: 8, rate: 10}} (got {row!r})")
                continue
            names = reader.fields(list(row), loc)
            values = reader.row(names, row, loc) if len(names) == len(row) else None
            if values is None:
                continue
            first = seen.setdefault(json.dumps(dict(values), sort_keys=True), i)
            if first < i:
                self.report(loc, f"the same point as number {first + 1}; keep one")
            found.append(values)
        return found

    def _check_rows(self, reader: AxisReader, design: Zipped) -> None:
        """Values that stand beside each other must make a case, and each combination stands once."""
        seen: dict[str, int] = {}
        for i, row in enumerate(islice(design, MOST_ROWS)):
            reader.row({path: path for path, _ in row}, dict(row), ("axes", i))
            first = seen.setdefault(json.dumps(dict(row)), i)
            if first < i:
                self.report(("axes",), f"values {first + 1} and {i + 1} of the axes are the same point; keep one")

    def _design(self, form: StudyDocument, axes: tuple[Axis, ...], rows: list[Values]) -> Design | None:
        if form.points is not None:
            return Listed(tuple(rows))
        if form.design == "grid":
            return Grid(axes)
        if not axes:
            if not form.axes:
                self.report(("design",), "needs axes; give some, or leave the key out")
            return None
        if isinstance(form.design, LatinHypercubeEntry):
            return LatinHypercube(axes, form.design.latin_hypercube, form.seed)
        if len(axes) < len(form.axes):
            return None
        lengths = {axis.path: len(axis.values) for axis in axes}
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{path} {n}" for path, n in lengths.items())
            self.report(
                ("axes",), f"design: list takes axes of equal length (got {said}); even them out, or use a grid"
            )
            return None
        return Zipped(axes)


def _holds(said: Any, at: tuple[str, ...]) -> bool:
    for step in at:
        if not isinstance(said, dict) or step not in said:
            return False
        said = cast("dict[str, Any]", said)[step]
    return True


def _belongs(kind: type[Case], name: str, loc: Location) -> str:
    """What to say of a key that exists elsewhere."""
    homes = [p.rpartition(".")[0] for p in paths(kind) if p.rpartition(".")[2] == name and not p.startswith("planner.")]
    if len(homes) != 1 or homes[0] == ".".join(map(str, loc)):
        return ""
    return f"unknown key here; it belongs {f'under {homes[0]}:' if homes[0] else 'at the top of the file'}"


def _axes_of(rows: list[Values]) -> tuple[Axis, ...]:
    """What varies in a list of points: each field with its distinct values."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        for path, value in row:
            found.setdefault(path, {})[json.dumps(value, sort_keys=True)] = value
    return tuple(Axis(path, tuple(values.values())) for path, values in found.items())
