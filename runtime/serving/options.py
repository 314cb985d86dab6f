"""The rarer options of `run` and `compare`: frozen records, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import InputError
from ...reprs import Shown
from ..children import SILENCE_S

__all__ = ["CompareOptions", "RunOptions"]


@dataclass(frozen=True, slots=True, repr=False)
class RunOptions(Shown):
    """How long is waited for workers, and how the controller predicts.

    Parameters
    ----------
    overhead : float, optional
        Seconds that the controller expects on top of every prediction; the plan's or else the profile set's if left
        out. What really comes on top, comes.
    correct_clocks : bool
        Whether predictions follow real finishes (see `dispatcher.Dispatcher`).
    startup_timeout_s : float
        Longest time for the workers to build their models, and for each one's first jobs, seconds.
    silence_s : float
        A worker that gives no sign of life for so long (it is stopped, or hangs) is ended, and its group is lost,
        seconds.
    answer_s : float, optional
        A group that has work, and says nothing of it for so long, hangs; by default half a minute, or
        `session.SLOWER` times as long as its slowest job took when the workers were warmed up, seconds.

    Raises
    ------
    InputError
        On seconds out of their range.
    """

    overhead: float | None = None
    correct_clocks: bool = True
    startup_timeout_s: float = 180.0
    silence_s: float = SILENCE_S
    answer_s: float | None = None

    def __post_init__(self) -> None:
        if self.overhead is not None and not (math.isfinite(self.overhead) and self.overhead >= 0):
            raise InputError(f"run: overhead: expected finite seconds >= 0 (got {self.overhead})")
        if not self.startup_timeout_s > 0:
            raise InputError(f"run: startup_timeout_s: expected > 0 seconds (got {self.startup_timeout_s})")
        if self.answer_s is not None and not self.answer_s > 0:
            raise InputError(f"run: answer_s: expected > 0 seconds (got {self.answer_s})")


@dataclass(frozen=True, slots=True, repr=False)
class CompareOptions(Shown):
    """How plans are compared.

    Parameters
    ----------
    max_batch : int
        Largest batch, in both worlds.
    calibrated : bool
        Measure each placement once it runs, and let simulation and admission use that; else the profiles.
    retries : int
        How often to run a cell, or the other requests before them, again if others, or the host, took more than 1 % of
        the workers' cores meanwhile (on a CPU). Of all attempts the least disturbed counts, whatever it attained.
    rehearsal_s : float, optional
        Before the cells other requests of the same kind are served for so long, to learn what the controller predicts
        with; as long as the trace by default, seconds.
    draws : int
        Draws of each prediction interval.
    seed : int
        Of other requests and of draws.

    Raises
    ------
    InputError
        On a number out of its range.
    """

    max_batch: int = 1
    calibrated: bool = True
    retries: int = 0
    rehearsal_s: float | None = None
    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rehearsal_s is not None and not (math.isfinite(self.rehearsal_s) and self.rehearsal_s > 0):
            raise InputError(f"compare: rehearsal_s: expected finite seconds > 0 (got {self.rehearsal_s})")
        if isinstance(self.draws, bool) or self.draws < 2:
            raise InputError(f"compare: draws: an interval needs at least 2 (got {self.draws})")
