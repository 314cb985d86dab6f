"""`Baseline`: a JSON file of the plans that planners are compared with, their scores, and why each was accepted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .. import __version__
from ..errors import InputError
from ..files import readable, write_text
from ..reprs import Shown
from ..wording import amiss, dotted, short
from ..worlds.guard import guard_of
from ..worlds.registry import names, world
from .scoring import CaseRun
from .suite import Suite

__all__ = ["Baseline", "BaselineCase", "Update", "read_baseline", "updated"]

FORMAT = "meshwright-baseline"
VERSION = 2


class Entry(Shown, BaseModel):
    """Base of what a baseline file holds: frozen, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BaselineCase(Entry):
    """What a baseline keeps of one case.

    Parameters
    ----------
    problem : dict
        Its world, and what decides the problem and its scores (`SuiteCase.problem`).
    planner : str
        Who planned it.
    decision : plain data
        The plan as its world keeps it (`Guard.decide`); None if there was none.
    infeasible : str
        Why there was none.
    evaluations : int
        Evaluations that the planner needed.
    scores : dict
        Metric -> its value in each replication, as scored when the baseline was made.
    digests : dict
        SHA-256 of what the case reads.
    package : str
        Version of Meshwright that made the entry.
    """

    problem: dict[str, Any]
    planner: str
    decision: Any = None
    infeasible: str = ""
    evaluations: int = Field(default=0, ge=0)
    scores: dict[str, tuple[float | None, ...]] = Field(default_factory=dict)
    digests: dict[str, str] = Field(default_factory=dict)
    package: str = __version__


class Update(Entry):
    """One change of a baseline: why, by which version, and of which cases."""

    reason: str
    package: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Baseline(Entry):
    """A baseline: its cases, and the history of its updates."""

    format: Literal["meshwright-baseline"] = FORMAT
    version: Literal[2] = VERSION
    suite: str
    updates: tuple[Update, ...] = Field(min_length=1)
    cases: dict[str, BaselineCase]

    def to_json(self) -> str:
        """The file's text: the same bytes for the same baseline, a line for each group and metric."""
        return layout(self.model_dump(mode="json"), "") + "\n"

    def save(self, path: str | Path) -> Path:
        """Write it, whole."""
        return write_text(path, self.to_json())


def read_baseline(path: str | Path, suite: Suite) -> Baseline:
    """Read the baseline of a suite.

    Raises
    ------
    InputError
        If it is missing, cut off, of another version or of another suite.
    """
    file = Path(path)
    try:
        text = readable(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f'{file}: there is no such baseline; create it with --update --reason "why"') from None
    except OSError as error:
        raise InputError(f"{file}: cannot read the baseline: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not a Meshwright baseline: not UTF-8 text") from None
    baseline = _parse(text, str(file))
    if baseline.suite != suite.name:
        raise InputError(
            f"{file}: the baseline of another suite: {baseline.suite!r} (the suite is {suite.name!r}); "
            "give that one's, or create one in another file with --update --reason"
        )
    return baseline


def _parse(text: str, where: str) -> Baseline:
    mend = "take it from version control, or create it anew with --update --reason once it is deleted"
    try:
        data: Any = json.loads(text, object_pairs_hook=_once)
    except _TwiceError as error:
        raise InputError(f"{where}: the key {error} stands twice in one object; was it merged? {mend}") from None
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{where}{line}: the baseline is not JSON; was it cut off or merged? {mend}") from None
    said = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if said.get("format") != FORMAT:
        raise InputError(f'{where}: not a Meshwright baseline: no "format": "{FORMAT}" in it')
    if type(said.get("version")) is not int or said["version"] != VERSION:
        raise InputError(
            f"{where}: version: this Meshwright reads version {VERSION} (got {short(said.get('version'))}); "
            "use the Meshwright that wrote it, or create it anew with --update --reason once it is deleted"
        )
    try:
        found = Baseline.model_validate_json(text)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InputError(f"{where}: {dotted(first['loc'])}: {amiss(first)}{more}; {mend}") from None
    for name, entry in found.cases.items():
        _check_decision(entry, f"{where}: cases.{name}.decision", mend)
    return found


def _check_decision(entry: BaselineCase, where: str, mend: str) -> None:
    """Refuse a decision that its world cannot read. Worlds that are no longer installed have no case in the suite."""
    name = entry.problem.get("world")
    if entry.decision is None or name not in names():
        return
    try:
        guard_of(world(str(name))).check(entry.decision)
    except InputError as error:
        said = str(error)
        joint = "." if said.partition(":")[0].replace(".", "").replace("[", "").replace("]", "").isalnum() else ": "
        raise InputError(f"{where}{joint}{said}; {mend}") from None


class _TwiceError(Exception):
    """A key stands twice. JSON readers silently keep one of the two, so a bad merge would go unnoticed."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _TwiceError(repr(next(key for key in keys if keys.count(key) > 1)))
    return found


@dataclass(frozen=True)
class _Change:
    """A change of one entry of a baseline."""

    old: BaselineCase | None
    new: BaselineCase

    @property
    def kept(self) -> bool:
        """Whether nothing but the package version is new: then the old entry stays."""
        return self.old is not None and self.old == self.new.model_copy(update={"package": self.old.package})


def updated(old: Baseline | None, suite: Suite, runs: Sequence[CaseRun], reason: str, whole: bool = True) -> Baseline:
    """The baseline with the plans and scores of this run.

    Parameters
    ----------
    old : Baseline, optional
        The one before; its history is kept, and its entries of cases that did not change.
    suite : Suite
        The suite that was run.
    runs : sequence of CaseRun
        The results of its cases.
    reason : str
        Why it is taken; kept.
    whole : bool
        Whether all cases of the suite were run; those that were not keep their entries, and none is dropped.

    Raises
    ------
    InputError
        If a planner crashed or made an invalid plan, or an objective has no value: nothing to be held against.
    """
    broken = [run for run in runs if run.failure in ("error", "invalid")]
    if broken:
        raise InputError(
            f"--update: case {broken[0].case!r} gave no valid plan: {broken[0].why}; mend it first"
            + (f" (and {len(broken) - 1} more)" if len(broken) > 1 else "")
        )
    asked = {case.name: case for case in suite.cases}
    for run in runs:
        case = asked[run.case]
        if None in run.scores.get(case.metric, ()):
            raise InputError(
                f"--update: case {run.case!r}: its metric {case.metric} has no value: "
                f"{case.measure(case.metric).absent}; make the case longer, or take another metric"
            )
    before = {} if old is None else dict(old.cases)
    problems = {case.name: case.problem() for case in suite.cases}
    changes = {run.case: _Change(before.get(run.case), _entry(run, problems[run.case])) for run in runs}
    now = {name: cast(BaselineCase, c.old) if c.kept else c.new for name, c in changes.items()}
    cases = now if whole else before | now
    update = Update(
        reason=reason, package=__version__,
        added=tuple(n for n in now if n not in before),
        changed=tuple(n for n, c in changes.items() if n in before and not c.kept),
        removed=tuple(n for n in before if n not in cases),
    )  # fmt: skip
    return Baseline(suite=suite.name, updates=(*(() if old is None else old.updates), update), cases=cases)


def _entry(run: CaseRun, problem: Mapping[str, Any]) -> BaselineCase:
    return BaselineCase(
        problem=json.loads(json.dumps(problem)), planner=run.planner, decision=_plain_data(run.decision),
        infeasible=run.why if run.failure == "infeasible" else "", evaluations=run.evaluations,
        scores=dict(run.scores), digests=dict(run.digests),
    )  # fmt: skip


def _plain_data(value: Any) -> Any:
    """As JSON gives it back, so that what is kept now is what is read later."""
    return json.loads(json.dumps(value))


LINE = 160
"""Most characters of a list or object that is written on one line: about what a review tool shows without wrapping."""


def layout(value: Any, indent: str) -> str:
    """JSON whose changes read well in version control: one line for each smallest part that a reviewer would name."""
    inner = indent + " "
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        if any(isinstance(v, dict | list) for v in entries.values()) and not _is_line(entries):
            rows = [f"{inner}{_plain(key)}: {layout(item, inner)}" for key, item in entries.items()]
            return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        if any(isinstance(item, dict | list) for item in items) and not _is_line(items):
            return "[\n" + ",\n".join(inner + layout(item, inner) for item in items) + f"\n{indent}]"
    return _plain(value)


def _is_line(value: Any) -> bool:
    """Whether something nested stands on one line: short, or objects aside only names and counts in flat lists."""
    if isinstance(value, dict):
        inner: list[Any] = [v for v in cast("dict[str, Any]", value).values() if isinstance(v, dict | list)]
        if all(isinstance(v, list) and all(isinstance(x, str | int) for x in cast("list[Any]", v)) for v in inner):
            return True
        return not any(isinstance(v, dict) for v in inner) and len(_plain(value)) <= LINE
    return len(_plain(value)) <= LINE and not any(isinstance(item, dict) for item in cast("list[Any]", value))


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
