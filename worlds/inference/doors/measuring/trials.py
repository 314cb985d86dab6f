"""`Trials`: placements of one network tried end to end, in a process of their own that is renewed before it is full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from .....runtime.backends import Captured, Course, MeasureOptions, Timing

__all__ = ["Groups", "Trials"]

Groups = tuple[tuple[str, tuple[str, ...]], ...]
"""A placement: backend and operators of each group."""

HELD_BYTES = 4e9
"""Weights that what was compiled may hold before the process is started anew: each placement has its own copies. A
guess at what a machine can spare."""
FEWEST = 4
"""Placements that a process gets in any case: to compile the one beside which all run takes time, too."""


class Trials:
    """Times placements by turns, each held against eager before; a context manager.

    Parameters
    ----------
    captured : Captured
        The network.
    backends : sequence of str
        All that placements may name.
    options : MeasureOptions
        How to measure.
    """

    def __init__(self, captured: Captured, backends: Sequence[str], options: MeasureOptions) -> None:
        module = captured.module
        weights = sum(t.numel() * t.element_size() for t in (*module.buffers(), *module.parameters()))
        self._most = max(FEWEST, int(HELD_BYTES / max(weights, 1)))
        self._made = captured, tuple(dict.fromkeys(backends)), options
        self._course = Course(*self._made)
        self._seen: set[Groups] = set()

    def __enter__(self) -> Trials:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._course.__exit__(kind, error, trace)

    def times(self, placements: Mapping[str, Groups]) -> dict[str, Timing]:
        """Each placement by its name, as of `Course.times`; those of one call are timed by turns.

        Raises
        ------
        InputError
            If a placement names another backend, or is no program.
        """
        new = set(placements.values()) - self._seen
        if self._seen and len(self._seen) + len(new) > self._most:
            self._course.__exit__(None, None, None)
            self._course, self._seen = Course(*self._made), set()
        self._seen |= set(placements.values())
        return self._course.times(placements)
