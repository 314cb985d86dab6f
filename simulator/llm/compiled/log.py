"""The log of what engines do that are simulated one after the other: one table for all of them, which grows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["STATE", "Log", "narrowest"]

STATE = (
    "running", "waiting", "prefill", "decodes", "preempted", "used_tokens", "wasted_tokens", "swap_out", "swap_in",
    "shared_tokens",
)  # fmt: skip
"""What is told of an iteration besides its times, in the order in which loops write it."""

MOST_ROWS = 2**21
"""Iterations for which there is room at first, at most: 100 MB if all are written."""


class Log:
    """Iterations, engine after engine, in the order in which the engines are simulated.

    To write memory for the first time takes longer than to simulate an iteration. So loops write what they tell to
    where the result has it, and numbers are as narrow as they can be.

    Parameters
    ----------
    guess : int
        Iterations that may come. Rows that nobody writes cost nothing.
    told : int
        How many of `STATE` the loop tells; the others are zero.
    kind : type
        Type of what is told (see `narrowest`).
    """

    def __init__(self, guess: int, told: int, kind: type[np.signedinteger[Any]]) -> None:
        rows = min(max(4096, guess), MOST_ROWS)
        self.rows, self._of_engine = 0, list[int]()
        self.clock: npt.NDArray[np.float64] = np.empty((2, rows))
        self.state: npt.NDArray[Any] = np.empty((told, rows), dtype=kind)

    def widen(self, used: int) -> None:
        """Make room behind the first so many rows, twice as many as there are: copies stay linear in the end."""
        for name in ("clock", "state"):
            table = getattr(self, name)
            wide = np.empty((len(table), 2 * table.shape[1]), dtype=table.dtype)
            wide[:, :used] = table[:, :used]
            setattr(self, name, wide)

    def add(self, clock: npt.NDArray[np.float64], state: npt.NDArray[Any]) -> None:
        """Write the iterations of a loop that has tables of its own; `end` them."""
        while self.rows + clock.shape[1] > self.clock.shape[1]:
            self.widen(self.rows)
        rows = slice(self.rows, self.rows + clock.shape[1])
        self.clock[:, rows], self.state[:, rows] = clock, state
        self.end(rows.stop)

    def end(self, rows: int) -> None:
        """The next engine has done all that it does: so many rows are written now."""
        self._of_engine.append(rows - self.rows)
        self.rows = rows

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of `Iterations`; engines are numbered in order of `end`."""
        some = len(self.state)
        told = {name: row[: self.rows] for name, row in zip(STATE, self.state, strict=False)}
        return {
            "engine": np.repeat(np.arange(len(self._of_engine), dtype=self.state.dtype), self._of_engine),
            "start": self.clock[0, : self.rows],
            "end": self.clock[1, : self.rows],
            **told,
            **{name: np.zeros(self.rows, dtype=np.int64) for name in STATE[some:]},
        }


def narrowest(most: int) -> type[np.signedinteger[Any]]:
    """The type of integers whose absolute value is at most so large: half the memory to write, where 32 bits do."""
    return np.int32 if most <= np.iinfo(np.int32).max else np.int64
