"""`Checkpoints`: how often a checkpoint is written, what it costs, and what starting from one costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....errors import InputError
from ....reprs import Shown

__all__ = ["Checkpoints"]


@dataclass(frozen=True, slots=True, repr=False)
class Checkpoints(Shown):
    """A training run saves its state in turn with computing.

    It computes for `interval_s`, stands still for `stall_s`, and computes on; `background_s` later the checkpoint is
    whole on disk and counts. Writing in the background slows nothing down.

    Parameters
    ----------
    interval_s : float
        Computing between two checkpoints, seconds: Daly's τ.
    stall_s : float
        For how long training stands still, seconds: Daly's δ. At most `interval_s`.
    background_s : float
        From the end of the stall until the checkpoint can be started from, seconds; 0: the stall is the whole of it. At
        most `interval_s`: the last checkpoint is whole before the next begins.
    restart_s : float
        From the moment when all nodes are there until training goes on, seconds: noticing the failure, starting
        processes, loading the checkpoint. Daly's R.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    interval_s: float
    stall_s: float
    background_s: float = 0.0
    restart_s: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.interval_s) and self.interval_s > 0):
            raise InputError(f"checkpoint: interval_s: expected finite seconds > 0 (got {self.interval_s})")
        for name in ("stall_s", "background_s", "restart_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"checkpoint: {name}: expected finite seconds >= 0 (got {value})")
        for name in ("stall_s", "background_s"):
            value = getattr(self, name)
            if value > self.interval_s:
                raise InputError(
                    f"checkpoint: {name}: a checkpoint of {value:g} s is longer than its interval of "
                    f"{self.interval_s:g} s; write fewer, or faster"
                )

    def _headline(self) -> str:
        late = f" + {self.background_s:g} s in the background" if self.background_s else ""
        return f"every {self.interval_s:g} s for {self.stall_s:g} s{late}, restart {self.restart_s:g} s"
