"""`measured`: runs a job in processes of its own, one after the other, until all of it is known.

Where one ends or falls silent, the unit that it was calling is refused, and the next process goes on without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ....errors import RunError
from ...children import START_S, Children
from .job import Job, Unit
from .line import heard, marked, started

__all__ = ["Findings", "Verdict", "measured"]

MOST_ENDS = 3
"""Crashes and hangs of a backend after which it is asked no more: each costs a new process. A guess."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a unit: its cost, or why it is refused."""

    cost_ms: float = math.nan
    spread: float = math.nan
    rounds: int = 0
    error: float | None = None
    reason: str = ""
    certain: bool = True
    """Whether it was tried at all: not where its backend had crashed too often before."""


@dataclass
class Findings:
    """What a job found out."""

    verdicts: dict[int, Verdict] = field(default_factory=dict)
    contexts: dict[int, float] = field(default_factory=dict)
    layouts: dict[int, float] = field(default_factory=dict)
    cpu_s: float = 0.0


def measured(
    job: Job, tensors: Any, learnt: Callable[[Findings], None], progress: Callable[[str], None] | None = None
) -> Findings:
    """Everything that a job asks for.

    Parameters
    ----------
    job : Job
        What to measure.
    tensors : dict
        The network's parameters and example.
    learnt : function
        Called with all that is known so far whenever something new is.
    progress : function, optional
        Called with a line for people.

    Raises
    ------
    RunError
        If the process ends without having called a unit.
    """
    found, waiting = Findings(), {unit.number: unit for unit in job.units}
    ends = dict[str, int]()
    children = Children("backends", silence_s=math.inf)  # a limit of its own is put on every step
    try:
        while True:
            asked = replace(
                job,
                units=tuple(waiting.values()),
                contexts=job.contexts if not found.contexts else (),
                layouts=job.layouts if not found.layouts else (),
            )
            blamed = _one_process(children, asked, tensors, found, learnt, progress)
            for number in found.verdicts:
                waiting.pop(number, None)
            if blamed is None:
                return found
            number, why = blamed
            unit = waiting.pop(number)
            found.verdicts[number] = Verdict(reason=why)
            ends[unit.backend] = ends.get(unit.backend, 0) + 1
            if ends[unit.backend] >= MOST_ENDS:
                _give_up(unit.backend, waiting, found)
            learnt(found)
            if not waiting:
                return found
    finally:
        children.close()


def _give_up(backend: str, waiting: dict[int, Unit], found: Findings) -> None:
    for number in [n for n, unit in waiting.items() if unit.backend == backend]:
        del waiting[number]
        found.verdicts[number] = Verdict(
            reason=f"not tried: {backend} has crashed or hung {MOST_ENDS} times", certain=False
        )


def _one_process(
    children: Children,
    job: Job,
    tensors: Any,
    found: Findings,
    learnt: Callable[[Findings], None],
    progress: Callable[[str], None] | None,
) -> tuple[int, str] | None:
    """Run a process to its end: `None` if it did everything, else the unit that it died of, and how."""
    child = started(children, job, tensors)
    before, spent, errors = found.cpu_s, 0.0, dict[int, float]()
    limit, hung = START_S, ""
    while True:
        said = heard(child, limit)
        if said is None:
            hung = f"hangs: nothing for {limit:g} s; it was ended"
            child.popen.kill()
            break
        if not said:
            break
        limit = job.options.limit_s
        spent = said["cpu_s"]
        found.cpu_s = before + spent
        if said.get("done"):
            child.pipe.close()
            child.popen.wait()
            return None
        if _noted(said, errors, found):
            learnt(found)
        if progress is not None:
            progress(_line(job, errors, found))
    how = hung or f"crashes: {child.obituary()}"
    number = marked(children)
    if number < 0:
        raise RunError(f"measuring backends: the process {how} while no unit was being called")
    child.popen.kill()
    return number, how


def _noted(said: dict[str, Any], errors: dict[int, float], found: Findings) -> bool:
    """Enter what was said; whether it is worth being kept."""
    if "unit" in said:
        if said["reason"]:
            found.verdicts[said["unit"]] = Verdict(error=said["error"], reason=said["reason"])
            return True
        errors[said["unit"]] = said["error"]
        return False
    if "cost" in said:
        number = said["cost"]
        found.verdicts[number] = Verdict(said["cost_ms"], said["spread"], said["rounds"], errors[number])
        return True
    if "context" in said:
        found.contexts[said["context"]] = said["cost_ms"]
    if "layout" in said:
        found.layouts[said["layout"]] = said["cost_ms"]
    return False


def _line(job: Job, errors: dict[int, float], found: Findings) -> str:
    known = sum(unit.number in found.verdicts for unit in job.units)
    return f"{len(errors)} of {len(job.units)} units checked, {known} known"
