"""Read a suite file: write its defaults into every case, let each case's world check it, name the line of every
error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError
from ..worlds import Case
from ..worlds.fields import checked, paths
from ..worlds.file.document import YamlDocument, problems
from ..worlds.file.errors import explain
from ..worlds.guard import Guard, guard_of
from ..worlds.registry import world
from .suite import Suite, SuiteCase, name_problem

__all__ = ["read_suite"]

Location = tuple[str | int, ...]
Problem = tuple[Location, str]


def _name(value: str) -> str:
    if wrong := name_problem(value):
        raise ValueError(wrong)
    return value


Name = Annotated[str, AfterValidator(_name)]


class _Judged(BaseModel):
    """How cases are judged; `judge` says it for all of them, a case for itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    metric: str = Field(default="", description="what a case is judged by; its world's own if left out")
    better: Literal["", "more", "less"] = Field(default="", description="which direction is better, if not the world's")
    tolerance: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.005, description="how much worse is let pass")
    replications: Annotated[int, Field(ge=3, le=1000)] = Field(default=10, description="seeds of held-out scores")
    evaluations_factor: Annotated[float, Field(ge=1)] | None = Field(default=1.5, description="null: any number")
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(default=0.99, description="of a difference's interval")


class _Entry(_Judged):
    name: Name = Field(description="words of letters, digits and + - . _")
    world: str = Field(default="", description="whose case it is; if left out the suite's")
    case: dict[str, Any] = Field(description="the case, as its world says it")


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    suite: Literal[2] = Field(description="version of the format")
    name: Name
    world: str = Field(default="", description="of the cases that name none")
    judge: _Judged = Field(default=_Judged(), description="how cases are judged that do not say it themselves")
    defaults: dict[str, dict[str, Any]] = Field(
        default_factory=dict[str, dict[str, Any]], description="world -> what its cases leave out"
    )
    cases: tuple[_Entry, ...]


def read_suite(document: YamlDocument, folder: Path, where: str) -> Suite:
    """The suite of a parsed file.

    Raises
    ------
    InputError
        All that is wrong with it at once, each with its line.
    """
    filled = _filled(document.data)
    try:
        read = _Document.model_validate_json(json.dumps(filled), strict=True)
    except ValidationError as error:
        found = [*explain(error, _Document, filled)]
        found += [problem for problem in _cases_wrong(filled) if not any(_inside(problem[0], loc) for loc, _ in found)]
        raise problems(document, [(_origin(loc, document.data), what) for loc, what in found]) from None
    if not read.cases:
        raise problems(document, [(("cases",), "expected at least one case (got an empty list)")])
    cases, wrong = list[SuiteCase](), list[Problem]()
    first: dict[str, int] = {}
    for i, entry in enumerate(read.cases):
        if first.setdefault(entry.name, i) != i:
            what = f"cases[{first[entry.name]}] is called {entry.name!r} already; give each a name of its own"
            wrong.append((("cases", i, "name"), what))
        if not entry.world:
            what = f"is missing; say it for all cases here, or in each (cases[{i}] says none)"
            wrong += [] if ("world",) in [loc for loc, _ in wrong] else [(("world",), what)]
            continue
        try:
            guard = guard_of(world(entry.world))
        except InputError as error:
            wrong.append((("cases", i, "world"), str(error).removeprefix("world: ")))
            continue
        case, problems_of_it = _case(guard, entry.case)
        wrong += [(("cases", i, "case", *loc), what) for loc, what in problems_of_it]
        if case is None:
            continue
        judged = {name: getattr(entry, name) for name in _Judged.model_fields}
        try:
            cases.append(SuiteCase(entry.name, entry.world, case, **judged))
        except InputError as error:
            field, _, what = str(error).partition(": ")
            wrong.append((("cases", i, field), what))
    if wrong:
        raise problems(document, [(_origin(loc, document.data), what) for loc, what in wrong])
    lines = {case.name: document.line(("cases", i)) or 1 for i, case in enumerate(cases)}
    return Suite(read.name, tuple(cases), folder, where, lines)


def _case(guard: Guard, said: Mapping[str, Any]) -> tuple[Case | None, list[Problem]]:
    case, wrong = checked(guard.case, said)
    if case is None:
        return None, wrong
    if case.seed < 0:
        return None, [(("seed",), f"should be greater than or equal to 0 (got {case.seed})")]
    return case, [*guard.complaints(case)]


def _cases_wrong(filled: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong inside the cases of a file of which more is wrong; only what can be read is looked at."""
    cases = filled.get("cases")
    for i, entry in enumerate(cast("list[Any]", cases) if isinstance(cases, list) else []):
        filled_in = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        said = filled_in.get("case")
        try:
            guard = guard_of(world(str(filled_in["world"]))) if isinstance(said, dict) else None
        except (InputError, KeyError):
            continue  # said already
        if guard is not None:
            yield from ((("cases", i, "case", *loc), what) for loc, what in _case(guard, cast("Any", said))[1])


def _inside(loc: Location, outer: Location) -> bool:
    return loc[: len(outer)] == outer


def _filled(data: Mapping[str, Any]) -> dict[str, Any]:
    """The document with what it says for all cases written into each."""
    cases = data.get("cases")
    if not isinstance(cases, list):
        return dict(data)
    return {**data, "cases": [_full(entry, data) for entry in cast("list[Any]", cases)]}


def _full(entry: Any, data: Mapping[str, Any]) -> Any:
    if not isinstance(entry, dict):
        return entry
    said = cast("dict[str, Any]", entry)
    judge, own = data.get("judge"), data.get("world")
    known = (
        {k: v for k, v in cast("dict[str, Any]", judge).items() if k in _Judged.model_fields}
        if isinstance(judge, dict)
        else {}
    )
    full = {**({"world": own} if own else {}), **known, **said}
    if isinstance(full.get("case"), dict):
        full["case"] = _full_case(full["case"], full.get("world"), data.get("defaults"))
    return full


def _full_case(case: dict[str, Any], name: Any, defaults: Any) -> dict[str, Any]:
    """A case with its world's defaults: sections but the planner's field by field, whatever else as a whole."""
    given: Any = cast("dict[str, Any]", defaults).get(name, {}) if isinstance(defaults, dict) else {}
    try:
        guard = guard_of(world(name)) if isinstance(name, str) else None
    except InputError:
        guard = None
    full = dict(case)
    if isinstance(given, dict):
        full = _merged("", case, cast("dict[str, Any]", given), guard)
    if guard is not None and isinstance(given, dict):
        for section in _sections(guard):
            mine, theirs = case.get(section), cast("dict[str, Any]", given).get(section)
            if isinstance(mine, dict) and isinstance(theirs, dict):
                full[section] = _merged(section, cast("Any", mine), cast("Any", theirs), guard)
    if isinstance(full.get("planner"), str):
        full["planner"] = {"name": full["planner"]}
    return full


def _merged(section: str, mine: dict[str, Any], theirs: dict[str, Any], guard: Guard | None) -> dict[str, Any]:
    """A section (or, without its name, a case) filled up; of rival fields its own replaces the default of the other."""
    replaced: set[str] = set()
    for rivals in () if guard is None else guard.rivals:
        names = [name for where, _, name in (path.rpartition(".") for path in rivals) if where == section]
        if any(name in mine for name in names):
            replaced |= set(names)
    return {name: value for name, value in theirs.items() if name not in replaced} | mine


def _sections(guard: Guard) -> list[str]:
    found = {path.partition(".")[0] for path in paths(guard.case) if "." in path}
    return sorted(found - {"planner"})


def _origin(loc: Location, data: Mapping[str, Any]) -> Location:
    """Where in the file the value at `loc` comes from: a case, or what stands for all of them."""
    if len(loc) < 3 or loc[0] != "cases" or not isinstance(data["cases"][loc[1]], dict):
        return loc
    entry: Any = data["cases"][loc[1]]
    judge: Any = data.get("judge")
    if loc[2] != "case":
        shared = loc[2] not in entry
        if shared and isinstance(judge, dict) and loc[2] in judge:
            return ("judge", *loc[2:])
        return ("world",) if shared and loc[2] == "world" and "world" in data else loc
    name, defaults = entry.get("world", data.get("world")), data.get("defaults")
    given: Any = cast("dict[str, Any]", defaults).get(name) if isinstance(defaults, dict) else None
    if len(loc) < 4 or not isinstance(given, dict) or not isinstance(entry.get("case"), dict):
        return loc
    said: Any = entry["case"]
    section, field = loc[3], loc[4] if len(loc) > 4 else None
    if section not in said:
        return ("defaults", name, *loc[3:]) if section in given else loc
    theirs: Any = cast("Any", given).get(section)
    inside = isinstance(said[section], dict) and field is not None and field not in said[section]
    if section != "planner" and inside and isinstance(theirs, dict) and field in theirs:
        return ("defaults", name, *loc[3:])
    return loc
