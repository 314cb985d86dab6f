"""What goes through the doors of a world: what is asked, what is answered, and what may be said besides the case."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from ..errors import InputError
from ..reprs import Shown

if TYPE_CHECKING:
    from ..simulator.plan.file import PlanFile
    from .world import Case

__all__ = [
    "DOORS", "Answer", "Asked", "Door", "DoorName", "Options", "Savable", "Target", "Written", "quiet",
]  # fmt: skip

DoorName = Literal["plan", "simulate", "run", "compare", "export", "measure"]

DOORS: Mapping[DoorName, str] = {
    "plan": "Decide how the case is served or trained, and write the plan.",
    "simulate": "Score a plan, or several, in simulation.",
    "run": "Run a plan for real on this machine.",
    "compare": "Hold real runs against the simulation.",
    "export": "Write the files that start a plan elsewhere.",
    "measure": "Time on this machine what plans are made with.",
}
"""Every door that a world may have -> what it is for."""


class Savable(Protocol):
    """What can be written whole: a plan file, or what a planner decided in a form of its own."""

    def save(self, path: str | Path) -> Path:
        """Write it."""
        ...


class Options(Shown, BaseModel):
    """Base of what may be said at a door besides the case, such as which engine simulates, or where to draw.

    Each field is an option of the command line and a keyword in Python, by its own name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Written:
    """Marks an option that names a file to write: whether it can be is known before any work (`before`)."""


Target = Annotated[Path | None, Written()]


def quiet(what: str) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True, repr=False)
class Asked(Shown):
    """What somebody asks at a door.

    Parameters
    ----------
    cases : tuple of Case
        One for each planner that is compared; they differ in nothing else. Of doors that take plans there is one, whose
        circumstances count.
    plans : mapping of str to PlanFile
        Plans by the name that tables call them; empty at the door `plan`.
    options : Options
        Of the door.
    folder : Path
        Files that a case names are relative to it.
    name : str
        What tables call the case.
    out : Path, optional
        Where the answer's plan, or an export, is written. A plan is written by who asks.
    progress : callable
        Told what is being done.
    """

    cases: tuple[Case, ...]
    plans: Mapping[str, PlanFile] = field(default_factory=dict[str, "PlanFile"])
    options: Options = field(default_factory=Options)
    folder: Path = Path()
    name: str = ""
    out: Path | None = None
    progress: Callable[[str], None] = quiet

    @property
    def case(self) -> Case:
        """The case, or the first of several."""
        return self.cases[0]


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Shown):
    """What comes back through a door.

    Parameters
    ----------
    text : str
        For people.
    document : mapping
        The same for machines, as JSON can hold it.
    value : object
        For Python: the result, or the results by the names of plans.
    plan : Savable, optional
        Of the door `plan`: what was decided; of several planners, the best.
    written : tuple of Path
        Files that the door wrote.
    failed : str
        Why a check failed, in a line; empty if none did.
    """

    text: str
    document: Mapping[str, Any]
    value: Any = None
    plan: Savable | None = None
    written: tuple[Path, ...] = ()
    failed: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Door(Shown):
    """One door of a world.

    Parameters
    ----------
    opens : str
        ``package.module:function``, absolute; imported when the door is used. Takes `Asked`, gives `Answer`.
    options : type of Options
        What may be said besides the case.
    says : {"case", "circumstances", "nothing"}
        Which fields of a case can be said here: all of them, those that we meet and do not choose, or none.
    needs_plan : bool
        Whether it takes plans; a case that is asked for instead is planned first.
    also : tuple of str
        Paths, or beginnings of paths, of decisions that can be said here too, instead of what the plan says.
    of_plans : tuple of str
        Likewise, where plans are given.
    out : str
        What may be written to a file or folder that is named; empty if nothing.
    one : bool
        Whether it takes one plan alone: of a file that compares planners the first, where nobody names one.
    shows_one : tuple of str
        Options that show one plan alone.
    folder : bool
        Whether `out` names a folder.
    alone : tuple of str
        Options that ask something of their own, with neither case nor plan: the door then gets no case.
    instead : mapping of str to mapping
        Option -> fields of the case that it says itself: path -> what stands there, and means nothing, while the option
        is given. Nobody says such a field beside the option.
    """

    opens: str
    options: type[Options] = Options
    says: Literal["case", "circumstances", "nothing"] = "circumstances"
    out: str = ""
    also: tuple[str, ...] = ()
    needs_plan: bool = True
    one: bool = False
    shows_one: tuple[str, ...] = ()
    folder: bool = False
    alone: tuple[str, ...] = ()
    instead: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    of_plans: tuple[str, ...] = ()

    def stands_in(self, options: Options, said: Container[str]) -> dict[str, Any]:
        """What stands in the case for what options say instead: path -> value.

        Raises
        ------
        InputError
            If such a field is said, too.
        """
        found: dict[str, Any] = {}
        for option, paths in self.instead.items():
            if getattr(options, option) is not None:
                twice = next((path for path in paths if path in said), None)
                if twice is not None:
                    raise InputError(f"{twice}: does not go with {option}, which says it; leave it out")
                found |= paths
        return found

    def __call__(self, asked: Asked) -> Answer:
        """Ask.

        Raises
        ------
        InputError
            On what is wrong with what is asked.
        InfeasibleError
            If there is no plan.
        """
        module, _, function = self.opens.partition(":")
        return getattr(import_module(module), function)(asked)
