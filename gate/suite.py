"""`Suite`: the cases that planners are held to, of any world, read from a YAML file and checked."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import readable
from ..reprs import Shown
from ..seeds import generator
from ..wording import nearest, short
from ..worlds import Case
from ..worlds.file.yaml import parse
from ..worlds.guard import Guard, Measure, guard_of
from ..worlds.registry import world

__all__ = ["STANDARD", "Suite", "SuiteCase", "load_suite", "matches"]

STANDARD = "standard"
"""Name of the suite that is shipped."""


@dataclass(frozen=True, repr=False)
class SuiteCase(Shown):
    """One planning problem, and what counts as worse.

    Parameters
    ----------
    name : str
        Words of letters, digits and ``+ - . _``.
    world : str
        The world that it is of.
    case : Case
        What is planned: a case of the suite's world.
    metric : str
        What it is judged by, beside what its world always compares; by default the world's first measure.
    better : {"", "more", "less"}
        Whether more or less of the metric is better; by default what the world says.
    tolerance : float
        How much worse is accepted: for a share (such as attainment) in absolute terms, for any other metric relative to
        the baseline's value. The default, half a point, is a guess at what nobody would act on.
    replications : int
        Number of seeds under which a plan is scored, if scores depend on seeds. Ten pairs give Student's interval
        enough degrees of freedom; more cost time in proportion.
    evaluations_factor : float, optional
        How many times the baseline's evaluations a planner may need; None: any number. The default is a guess between
        harmless changes of a search and one that lost its pruning.
    confidence : float
        Confidence of the interval of a difference. At 99 %, a suite of n cases without any change raises 0.005 · n
        false alarms (docs/gate.md), before the tolerance.

    Raises
    ------
    InputError
        If the world is unknown, or cannot say what the case is judged by.
    """

    name: str
    world: str
    case: Case
    metric: str = ""
    better: str = ""
    tolerance: float = 0.005
    replications: int = 10
    evaluations_factor: float | None = 1.5
    confidence: float = 0.99
    planner: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if wrong := name_problem(self.name):
            raise InputError(f"name: {wrong}")
        guard = self.guard
        if not self.metric:
            if not guard.measures:
                raise InputError(f"metric: is missing; world {self.world!r} does not say what its cases are judged by")
            object.__setattr__(self, "metric", next(iter(guard.measures)))
        known = tuple(guard.measures) or tuple(guard.world.metrics)
        if self.metric not in known:
            near = nearest(self.metric, known)
            hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(known)}"
            raise InputError(f"metric: world {self.world!r} is not judged by {self.metric!r}; {hint}")
        if not self.better and self.metric not in guard.measures:
            raise InputError(f"better: is missing; say whether more or less of {self.metric} is better")
        if not self.planner:
            object.__setattr__(self, "planner", planner_of(self.case))

    @property
    def guard(self) -> Guard:
        """The case's world as the gate sees it."""
        return _guard(self.world)

    @property
    def metrics(self) -> tuple[str, ...]:
        """What is compared: what the world always does, and what the case is judged by."""
        return tuple(dict.fromkeys((*self.guard.always, self.metric)))

    def measure(self, metric: str) -> Measure:
        """How a metric is judged and told."""
        found = self.guard.measures.get(metric) or Measure(more=self.better == "more")
        if metric == self.metric and self.better:
            return replace(found, more=self.better == "more")
        return found

    def seeds(self) -> tuple[int, ...]:
        """The seeds of the streams that plans are scored on. No planner sees them.

        Where nothing is drawn there is one score, under the case's own seed.
        """
        if not self.guard.draws(self.case):
            return (self.case.seed,)
        return tuple(
            int(generator(self.case.seed, "gate", "scored", r).integers(2**31)) for r in range(self.replications)
        )

    def problem(self) -> dict[str, Any]:
        """What decides the problem and its scores, defaults left out; neither who plans it nor how it is judged."""
        said = self.case.model_dump(mode="json", exclude_defaults=True, exclude={"planner"})
        return {"world": self.world, "case": said, "replications": len(self.seeds())}

    def replanned(self, planner: str, folder: Path) -> SuiteCase:
        """The case planned by another planner; files that they name are looked for in the folder.

        Raises
        ------
        InputError
            If its world has no such planner.
        """
        return replace(self, case=self.guard.replanned(self.case, planner, folder), planner=planner)


@lru_cache(maxsize=32)
def _guard(name: str) -> Guard:
    return guard_of(world(name))


def name_problem(name: str) -> str:
    """Why reports and ``--only`` could not show a name; empty if they can."""
    if re.fullmatch(r"[\w+.-]+( [\w+.-]+)*", name) and len(name) <= 100:
        return ""
    return f"expected words of letters, digits and + - . _, at most 100 long (got {short(name)})"


def planner_of(case: Case) -> str:
    """The name of who plans a case."""
    return str(getattr(getattr(case, "planner", None), "name", "")) or "unknown"


@dataclass(frozen=True, repr=False)
class Suite(Shown):
    """A checked suite.

    Parameters
    ----------
    name : str
        Name of the suite; every baseline belongs to one suite.
    cases : tuple of SuiteCase
        The cases, in the order in which they are planned.
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

    def planned_by(self, planner: str) -> Suite:
        """The cases that a planner can plan, planned by it: its world has it, and it takes what the case says.

        Raises
        ------
        InputError
            If it can plan none.
        """
        kept: list[SuiteCase] = []
        wrong: dict[str, InputError] = {}
        for case in self.cases:
            try:
                kept.append(case.replanned(planner, self.folder))
            except InputError as error:
                wrong.setdefault(case.world, error)
        if kept:
            return replace(self, cases=tuple(kept))
        if len(wrong) == 1:
            raise next(iter(wrong.values()))
        said = "; ".join(f"{name}: {' '.join(str(error).split())}" for name, error in wrong.items())
        raise InputError(f"--planner: no world of suite {self.name!r} has a planner {planner!r}; {said}")


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
    from .read import read_suite

    if str(path) == STANDARD:
        shipped = resources.files("meshwright.gate") / "data" / f"{STANDARD}.yaml"
        text = shipped.read_text(encoding="utf-8")
        return read_suite(parse(text, f"{STANDARD}.yaml"), Path(str(shipped)).parent, "")
    file = readable(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text" if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"{file}: cannot read the suite: {why}; {STANDARD!r} is the suite that is shipped") from None
    return read_suite(parse(text, str(file)), file.parent, str(file))
