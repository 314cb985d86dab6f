"""The Python face of the worlds: ``meshwright.case("llm", …).plan().simulate()``, and plans read from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import InputError
from ..reprs import one_line
from ..simulator.plan.file import PlanFile
from ..wording import dotted, nearest
from .before import check_asked, check_number
from .cases import build, said_by_name, settled
from .door import Answer, Asked, DoorName, Options, quiet
from .file.errors import explain
from .registry import names, open_world, world_of_plan
from .world import Case, OpenWorld

__all__ = ["Planned", "answered", "case", "load", "plan", "world_of"]


def case(world: str, /, **said: Any) -> Case:
    """A case of a world, from values by name.

    Parameters
    ----------
    world : str
        Name of the world: serving, llm, training, sharing, or one that a package brings.
    **said
        Fields by their last word where that is unique (``rate=60``), or sections as mappings
        (``workload={"rate": 60}``).

    Raises
    ------
    InputError
        All that is wrong; of an unknown field, the nearest name.
    """
    here = open_world(world)
    return build(here, {}, said_by_name(here, said))


def load(path: str | Path) -> Planned:
    """Read a plan file of any world.

    Raises
    ------
    InputError
        If it is none, or is wrong.
    """
    here = world_of_plan(path)
    return Planned(here, here.load(Path(path)), name=str(path))


def plan(case: Case, *, folder: str | Path = ".", progress: Callable[[str], None] = quiet, **options: Any) -> Planned:
    """Plan a case.

    Parameters
    ----------
    case : Case
        What is asked.
    folder : path
        Files that the case names are relative to it.
    progress : callable
        Told what is being done.
    **options
        Of the door `plan` of the case's world.

    Raises
    ------
    InputError
        On what is wrong with the case.
    InfeasibleError
        If there is no plan.
    """
    here = world_of(case)
    answer = answered(here, "plan", Asked((case,), folder=Path(folder), progress=progress), options)
    if not isinstance(answer.plan, PlanFile):
        raise InputError(f"world {here.name!r}: what this planner decides is held by no plan file")
    return Planned(here, answer.plan, case, Path(folder), answer)


@dataclass(frozen=True, slots=True, repr=False)
class Planned:
    """A plan, with the world that it is of and the case that it was made for.

    Parameters
    ----------
    world : OpenWorld
        Of the plan.
    file : PlanFile
        The plan itself, as files hold it.
    case : Case, optional
        What it was made for; of a plan that was read, what the file says of it.
    folder : Path
        Files that the case names are relative to it.
    answer : Answer, optional
        What the planner said.
    name : str
        What tables call it.
    """

    world: OpenWorld
    file: PlanFile
    case: Case | None = None
    folder: Path = field(default_factory=Path)
    answer: Answer | None = None
    name: str = "plan"

    def __repr__(self) -> str:
        return one_line("Planned", f"{self.world.name}: {self.file!r}")

    def _repr_html_(self) -> str:
        html = getattr(self.file, "_repr_html_", None)
        return str(html()) if callable(html) else f"<pre>{self!r}</pre>"

    def __str__(self) -> str:
        return self.answer.text if self.answer is not None else repr(self)

    def save(self, path: str | Path) -> Path:
        """Write the plan file."""
        return self.file.save(path)

    def simulate(self, case: Case | None = None, **options: Any) -> Any:
        """Score it in simulation, in its own case or another; gives the world's result."""
        return self._asked("simulate", case, options).value

    def run(self, case: Case | None = None, **options: Any) -> Any:
        """Run it for real on this machine; gives the world's result."""
        return self._asked("run", case, options).value

    def compare(self, case: Case | None = None, **options: Any) -> Any:
        """Hold a real run against the simulation; gives the world's comparison."""
        return self._asked("compare", case, options).value

    def export(self, target: str, folder: str | Path, **options: Any) -> tuple[Path, ...]:
        """Write the files that start it elsewhere; gives their paths."""
        return self._asked("export", None, {"to": target, **options}, Path(folder)).written

    def _asked(self, door: DoorName, case: Case | None, options: Mapping[str, Any], out: Path | None = None) -> Answer:
        plans = {self.name: self.file}
        asked_for = case or self.case
        opened = self.world.doors[door]
        if asked_for is None and (opened.says != "nothing" or opened.also):
            asked_for = build(self.world, self.world.case_of(plans, {}, door), {})
        cases = () if asked_for is None else (asked_for,)
        return answered(self.world, door, Asked(cases, plans, folder=self.folder, out=out), options)


def world_of(case: Case) -> OpenWorld:
    """The world that a case is of.

    Raises
    ------
    InputError
        If it is of none.
    """
    for name in names():
        found = open_world(name)
        if type(case) is found.case:
            return found
    raise InputError(f"case: {type(case).__name__} is a case of no world")


def answered(world: OpenWorld, door: DoorName, asked: Asked, options: Mapping[str, Any]) -> Answer:
    """Ask at a door, with its options by name.

    Raises
    ------
    InputError
        If the world has no such door, or on options that it does not have or take.
    """
    found = world.doors.get(door)
    if found is None:
        raise InputError(f"world {world.name!r}: cannot {door}; it can {', '.join(world.doors)}")
    said = checked_options(found.options, options, f"{door}: ")
    check_asked(world, door, said, asked.out)
    check_number(world, door, said, asked.plans)
    cases = tuple(settled(world, case, asked.folder) for case in asked.cases)
    return found(replace(asked, cases=cases, options=said))


def checked_options(kind: type[Options], said: Mapping[str, Any], where: str = "") -> Options:
    """Options of a door, by name.

    Raises
    ------
    InputError
        On an unknown one, naming the nearest, and on a value that it does not take.
    """
    for name in said:
        if name not in kind.model_fields:
            near = nearest(name, kind.model_fields)
            known = f"did you mean {near!r}?" if near else f"known: {', '.join(kind.model_fields) or 'none'}"
            raise InputError(f"{where}unknown option {name!r}; {known}")
    try:
        return kind(**said)
    except ValidationError as error:
        wrong = explain(error, kind, dict(said))
        raise InputError("\n".join(f"{where}{dotted(loc)}: {what}" for loc, what in wrong)) from None
