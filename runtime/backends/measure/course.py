"""`Course`: times whole placements of one network end to end, by turns, in a process that stays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from ....errors import InputError, RunError
from ....profiles.backends import Backend, ones
from ...children import START_S, Child, Children
from ...serving.protocol import send_json
from ..capture import Captured
from ..program import in_order
from ..transfer import stored
from .job import Job
from .line import heard, marked, started
from .options import MeasureOptions
from .setting import chosen_backends, pickled

__all__ = ["Course", "GroupTime", "Timing"]


@dataclass(frozen=True, slots=True)
class GroupTime:
    """A group of a program as it was timed: its backend, its nodes, and CPU milliseconds of a call in its place."""

    backend: str
    nodes: tuple[str, ...]
    ms: float


@dataclass(frozen=True, slots=True)
class Timing:
    """A placement, measured end to end.

    Parameters
    ----------
    ms : float
        CPU time of a run, milliseconds: the median over rounds. Not a number where it cannot run.
    spread : float
        How uncertain that is, as of `Match`.
    samples_ms : tuple of float
        Each round's; entries of one call were timed by turns, so that their rounds are pairs.
    groups : tuple of GroupTime
        In the order in which they ran.
    error : float
        Largest difference from eager over the largest value, over 3 random inputs.
    same_bits : bool
        Whether two runs gave equal bits.
    reason : str
        Why it cannot run: a unit raises, crashes or hangs, or the result is wrong. Empty where it can.
    """

    ms: float = math.nan
    spread: float = math.nan
    samples_ms: tuple[float, ...] = ()
    groups: tuple[GroupTime, ...] = ()
    error: float = math.nan
    same_bits: bool = False
    reason: str = ""


Placed = Sequence[tuple[str, Sequence[str]]]
"""Groups of a placement: a backend and the ids of its nodes each."""


class Course:
    """Times placements of one network; a context manager.

    What was compiled for one placement is there for the next. A process that crashes or hangs is started again.

    Parameters
    ----------
    captured : Captured
        The network.
    backends : sequence of str or Backend
        All that placements may name.
    options : MeasureOptions, optional
        How to measure.

    Raises
    ------
    InputError
        If a backend is unknown or cannot be used.
    """

    def __init__(
        self, captured: Captured, backends: Sequence[str | Backend], options: MeasureOptions | None = None
    ) -> None:
        self.graph, self.options = captured.graph, options or MeasureOptions()
        held, chosen = stored(captured), chosen_backends(backends)
        self._tensors = {"parameters": held.tensors, "example": list(held.example)}
        network = replace(held, tensors={}, example=())
        self._job = Job(network, pickled(chosen), (), (), (), self.options)
        self._children = Children("backends", silence_s=math.inf)
        self._child: Child | None = None

    def __enter__(self) -> Course:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._children.close()

    def times(self, placements: Mapping[str, Placed]) -> dict[str, Timing]:
        """Each placement by its name; all are timed by turns.

        Raises
        ------
        InputError
            If a placement names another backend, or is no program (`program.in_order`).
        RunError
            If the process ends before it has called anything.
        """
        entries = {name: self._entry(name, placed) for name, placed in placements.items()}
        out = dict[str, Timing]()
        while waiting := [name for name in entries if name not in out]:
            answers, blamed, why = self._asked([entries[name] for name in waiting])
            if blamed is not None:  # the others are asked again, of a new process
                out[waiting[blamed]] = Timing(reason=why)
            else:
                out |= {name: self._timing(answer) for name, answer in zip(waiting, answers, strict=True)}
        return {name: out[name] for name in entries}

    def _entry(self, name: str, placed: Placed) -> list[tuple[str, int]]:
        entry = [(backend, self.graph.bits(nodes)) for backend, nodes in placed]
        strange = [backend for backend, _ in entry if backend not in self._job.backends]
        if strange:
            known = ", ".join(self._job.backends)
            raise InputError(f"placement {name!r}: backend {strange[0]!r}: expected one of {known}")
        in_order(self.graph, [members for _, members in entry])
        return entry

    def _asked(self, entries: list[list[tuple[str, int]]]) -> tuple[list[Any], int | None, str]:
        child = self._started()
        send_json(child.pipe, {"entries": entries})
        while True:
            said = heard(child, self.options.limit_s)
            if said and "answers" in said:
                return said["answers"], None, ""
            if said:
                continue
            hung = said is None
            if hung:
                child.popen.kill()
            how = f"hangs: nothing for {self.options.limit_s:g} s" if hung else f"crashes: {child.obituary()}"
            number = marked(self._children)
            self._child = None
            if number < 0:
                raise RunError(f"timing placements: the process {how} before it called anything")
            child.popen.kill()
            return [], number, how

    def _started(self) -> Child:
        if self._child is not None:
            return self._child
        child = started(self._children, self._job, self._tensors, stays=True)
        if not heard(child, START_S):
            child.popen.kill()
            raise RunError(f"timing placements: the process did not start: {child.obituary()}")
        self._child = child
        return child

    def _timing(self, answer: Mapping[str, Any]) -> Timing:
        if answer["reason"]:
            return Timing(reason=answer["reason"], error=answer.get("error", math.nan))
        named = (
            (backend, tuple(self.graph.nodes[k].id for k in ones(members))) for backend, members in answer["groups"]
        )
        groups = tuple(
            GroupTime(backend, nodes, ms) for (backend, nodes), ms in zip(named, answer["groups_ms"], strict=True)
        )
        return Timing(
            answer["ms"], answer["spread"], tuple(answer["samples_ms"]), groups, answer["error"], answer["same_bits"]
        )
