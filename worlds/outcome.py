"""`Outcome`: what evaluating one point gave."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..errors import InputError
from ..reprs import Shown

__all__ = ["Outcome", "Status"]

Status = Literal["ok", "infeasible", "failed"]


@dataclass(frozen=True, repr=False)
class Outcome(Shown):
    """The result of one point: a pure function of its inputs, so it holds no wall-clock time.

    Parameters
    ----------
    status : {"ok", "infeasible", "failed"}
        ``infeasible``: the question has no plan, which is an answer. ``failed``: evaluating it raised an error.
    metrics : Mapping[str, float]
        Finite figures by name; what is not known is left out.
    notes : tuple of str
        What a reader must know: an unstable system, a percentile that was refused and why.
    decision : str
        What was decided, in words.
    error : str
        One line; empty if the status is ``ok``.
    """

    status: Status = "ok"
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    notes: tuple[str, ...] = ()
    decision: str = ""
    error: str = ""

    def __post_init__(self) -> None:
        bad = [name for name, value in self.metrics.items() if not math.isfinite(value)]
        if bad:
            raise InputError(f"outcome: metric {bad[0]!r} must be finite (got {self.metrics[bad[0]]}); leave it out")
        if (self.status == "ok") == bool(self.error):
            raise InputError(f"outcome: status {self.status!r} with error {self.error!r}; give one of the two")
