"""`Suite`: the cases that a planner is held to, read from a YAML file and checked."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError
from ..files import readable
from ..wording import nearest, short
from ..worlds.file.errors import explain
from ..worlds.file.yaml import YamlDocument, parse, problems
from ..worlds.serving.case import ServingCase

__all__ = ["OBJECTIVES", "STANDARD", "Objective", "Suite", "SuiteCase", "load_suite"]

STANDARD = "standard"
"""Name of the suite that is shipped."""

Objective = Literal["attainment", "goodput", "mean_latency", "p50_latency", "p99_latency"]
OBJECTIVES: dict[Objective, bool] = {
    "attainment": True, "goodput": True, "mean_latency": False, "p50_latency": False, "p99_latency": False,
}  # fmt: skip
"""What a case can be scored by -> whether more of it is better."""

JUDGED = frozenset({"name", "objective", "tolerance", "replications", "evaluations_factor", "confidence"})
"""Fields that say how a case is judged; the others say what it is."""

SECTIONS = ("cluster", "workload", "serving")
"""Parts of a case that are filled up from the defaults field by field; whatever else a case says stands for itself."""

RIVALS = (("rate", "trace"), ("slo", "slo_scale"))
"""Fields of the workload of which a case gives one: its own replaces the default of the other."""


def _name(value: str) -> str:
    """A name as it is, if reports and ``--only`` can show it."""
    if not re.fullmatch(r"[\w+.-]+( [\w+.-]+)*", value) or len(value) > 100:
        raise ValueError(f"expected words of letters, digits and + - . _, at most 100 long (got {short(value)})")
    return value


Name = Annotated[str, AfterValidator(_name)]


class SuiteCase(ServingCase):
    """One planning problem, and what counts as worse.

    Everything of a study's serving case (cluster, models, profile, workload, serving, planner, …) stands here too.
    """

    name: Name = Field(description="words of letters, digits and + - . _")
    seed: int = Field(default=0, ge=0, description="of the traffic that is planned on, and of the planner")
    objective: Objective = Field(default="attainment", description="compared beside attainment, which always is")
    tolerance: float = Field(
        default=0.005, ge=0, lt=1,
        description="how much worse is let pass: of attainment as it is, of another objective relative to the baseline",
    )  # fmt: skip
    replications: int = Field(default=10, ge=3, le=1000, description="traces that a plan is scored on")
    evaluations_factor: float | None = Field(
        default=1.5, ge=1, description="how many times the baseline's evaluations a planner may need; null: any number"
    )
    confidence: float = Field(default=0.99, gt=0, lt=1, description="of the interval of a difference")

    def problem(self) -> dict[str, Any]:
        """What decides the problem and its scores, defaults left out; neither who plans it nor how it is judged."""
        said = self.model_dump(mode="json", exclude_defaults=True, exclude={"planner", *JUDGED})
        return {**said, "replications": self.replications}


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    suite: Literal[1] = Field(description="version of the format")
    name: Name
    defaults: dict[str, Any] = Field(default_factory=dict[str, Any], description="what cases leave out")
    cases: tuple[SuiteCase, ...]


@dataclass(frozen=True)
class Suite:
    """A checked suite.

    Parameters
    ----------
    name : str
        Its name; a baseline belongs to one.
    cases : tuple of SuiteCase
        What is planned, in order.
    folder : Path
        Where files that the suite names are looked for.
    where : str
        The file, as the user named it; empty for the shipped suite.
    lines : mapping of str to int
        Case -> its line in the file.
    """

    name: str
    cases: tuple[SuiteCase, ...]
    folder: Path
    where: str
    lines: Mapping[str, int]

    def only(self, patterns: Sequence[str]) -> Suite:
        """The suite with the cases that match one of the patterns (``*``, ``?``, ``[…]``).

        Raises
        ------
        InputError
            If a pattern matches none.
        """
        names = [case.name for case in self.cases]
        for pattern in patterns:
            if not fnmatch.filter(names, pattern):
                near = nearest(pattern, names)
                hint = f"did you mean {near!r}?" if near else f"the cases are {', '.join(names)}"
                raise InputError(f"--only: suite {self.name!r} has no case {pattern!r}; {hint}")
        return replace(self, cases=tuple(c for c in self.cases if matches(c.name, patterns)))


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a case is asked for; all are where no pattern is given."""
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def load_suite(path: str | Path) -> Suite:
    """Read a suite file; ``standard`` is the shipped one.

    Raises
    ------
    InputError
        All that is wrong with it at once, each with its line.
    """
    if str(path) == STANDARD:
        shipped = resources.files("meshwright.gate") / "data" / f"{STANDARD}.yaml"
        return _suite(parse(shipped.read_text(encoding="utf-8"), f"{STANDARD}.yaml"), Path(), "")
    file = readable(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text" if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"{file}: cannot read the suite: {why}; {STANDARD!r} is the suite that is shipped") from None
    return _suite(parse(text, str(file)), file.parent, str(file))


def _suite(document: YamlDocument, folder: Path, where: str) -> Suite:
    merged = _merged(document.data)
    try:
        read = _Document.model_validate_json(json.dumps(merged), strict=True)
    except ValidationError as error:
        found = explain(error, _Document, merged)
        raise problems(document, [(_origin(loc, document.data), what) for loc, what in found]) from None
    wrong = _contradictions(read.cases)
    if wrong:
        raise problems(document, [(_origin(loc, document.data), what) for loc, what in wrong])
    lines = {case.name: document.line(("cases", i)) or 1 for i, case in enumerate(read.cases)}
    return Suite(read.name, read.cases, folder, where, lines)


def _contradictions(cases: Sequence[SuiteCase]) -> list[tuple[tuple[str | int, ...], str]]:
    found: list[tuple[tuple[str | int, ...], str]] = []
    if not cases:
        found.append((("cases",), "expected at least one case (got an empty list)"))
    first: dict[str, int] = {}
    for i, case in enumerate(cases):
        if first.setdefault(case.name, i) != i:
            what = f"cases[{first[case.name]}] is called {case.name!r} already; give each a name of its own"
            found.append((("cases", i, "name"), what))
        for name in ("plan_on", "planned_for", "lost_groups"):
            if name in case.planner.model_fields_set:
                what = "a gate plans on one draw of the traffic and scores on others; leave it out"
                found.append((("cases", i, "planner", name), what))
    return found


def _merged(data: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its defaults written into every case."""
    defaults, cases = data.get("defaults", {}), data.get("cases")
    if not isinstance(defaults, dict) or not isinstance(cases, list):
        return dict(data)
    given = cast("dict[str, Any]", defaults)
    return {**data, "cases": [_filled(case, given) for case in cast("list[Any]", cases)]}


def _filled(case: Any, defaults: Mapping[str, Any]) -> Any:
    if not isinstance(case, dict):
        return case
    full = {**defaults, **cast("dict[str, Any]", case)}
    for section in SECTIONS:
        own, default = full.get(section), defaults.get(section)
        if section in case and isinstance(own, dict) and isinstance(default, dict):
            mine, theirs = cast("dict[str, Any]", own), cast("dict[str, Any]", default)
            replaced = {name for pair in RIVALS for name in pair if any(rival in mine for rival in pair)}
            full[section] = {name: value for name, value in theirs.items() if name not in replaced} | mine
    if isinstance(full.get("planner"), str):
        full["planner"] = {"name": full["planner"]}
    return full


def _origin(loc: tuple[str | int, ...], data: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Where in the file the value at `loc` comes from: a case, or the defaults."""
    if len(loc) < 3 or loc[0] != "cases":
        return loc
    case: Any = data["cases"][loc[1]]
    defaults: Any = data.get("defaults", {})
    section, field = loc[2], loc[3] if len(loc) > 3 else None
    if section not in case:
        return ("defaults", *loc[2:]) if section in defaults else loc
    inside = isinstance(case[section], dict) and field is not None and field not in case[section]
    if section in SECTIONS and inside and field in defaults.get(section, ()):
        return ("defaults", *loc[2:])
    return loc
