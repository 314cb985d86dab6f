"""`make`: compute, measure, and gather every line of the accuracy page."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

from ...errors import MeshwrightError
from ...reprs import Shown
from . import elsewhere, files
from .here import MEASURED, measured
from .line import Line
from .machine import Machine, Used, Watch, machine
from .options import Options
from .published import Tell, computed

__all__ = ["Accuracy", "make"]


MEND = "pip install -e '.[torch,serve]'"


@dataclass(frozen=True, repr=False)
class Accuracy(Shown):
    """The lines, and what they were made on.

    Parameters
    ----------
    lines : tuple of Line
        Kind by kind, world by world.
    machine : Machine
        What ran.
    used : Used, optional
        Who used the cores while this machine was measured; None if it was not.
    seconds : float
        How long all of it took.
    """

    lines: tuple[Line, ...]
    machine: Machine
    used: Used | None
    seconds: float

    def _headline(self) -> str:
        return f"{len(self.lines)} lines, {sum(line.errors is None for line in self.lines)} not run"

    def circumstances(self) -> str:
        """Day, machine, versions, and who used the cores, in a paragraph."""
        versions = ", ".join(f"{name} {version}" for name, version in self.machine.versions.items())
        where = f"{self.machine.processor} ({self.machine.system})"
        said = f"Made on {self.machine.date} in {self.seconds:.0f} s, on {where}, with {versions}."
        if self.used is None:
            return f"{said} Nothing was measured on the machine."
        return f"{said} While the machine was measured, {self.used.words()}."

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        used = None
        if self.used is not None:
            used = {name: getattr(self.used, name) for name in ("seconds", "ours", "others", "host")}
            used = {name: None if value != value else value for name, value in used.items()}
        return {
            "lines": [line.to_dict() for line in self.lines],
            "machine": self.machine.to_dict(),
            "used": used,
            "seconds": self.seconds,
        }


def make(options: Options | None = None, tell: Tell | None = None) -> Accuracy:
    """Compute what others published, measure this machine, and read the files that were given.

    Parameters
    ----------
    options : Options, optional
        What of it.
    tell : callable, optional
        Told what is being done.

    Raises
    ------
    InputError
        On files that cannot be read. What breaks while this machine is measured becomes a line that says so.
    """
    options, say = options or Options(), tell or _silent
    began, about = Watch(), machine()
    # Files first: what is wrong with them is said before minutes of work.
    given = files.lines(options.given, say)
    lines: list[Line] = []
    for world in options.worlds:
        lines += [*computed(world, options.seed, say), *elsewhere.lines(world)]
    watch = Watch()
    for world in options.worlds:
        lines += _here(world, about, options, say)
    used = watch.used() if options.here else None
    return Accuracy((*lines, *given), about, used, began.used().seconds)


def _here(world: str, about: Machine, options: Options, say: Tell) -> tuple[Line, ...]:
    """One world's lines of this machine; one that says why, where there are none."""
    if not options.here:
        return (_missing(world, about, "not measured: --no-here"),)
    if importlib.util.find_spec("torch") is None:
        return (_missing(world, about, f"not measured: torch is not installed ({MEND})"),)
    try:
        return measured(world, about, options.seed, say)
    except MeshwrightError as error:
        return (_missing(world, about, f"broke off: {' '.join(str(error).split())}"),)
    except ModuleNotFoundError as error:
        return (_missing(world, about, f"not measured: {error.name} is not installed ({MEND})"),)


def _missing(world: str, about: Machine, why: str) -> Line:
    return Line(
        "here", world, "a real run of this world", MEASURED[world].rpartition(".")[2], "this machine", about.name,
        about.date, "out", "nothing was run", "`meshwright compare`", missing=why,
    )  # fmt: skip


def _silent(line: str) -> None:
    """No progress wanted."""
