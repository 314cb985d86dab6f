"""`RunOptions`: the rarer options of a training run on this machine."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from dataclasses import dataclass
from typing import Literal

from ...errors import InputError
from ...reprs import Shown
from ..children import SILENCE_S

__all__ = ["RunOptions"]


@dataclass(frozen=True, slots=True, repr=False)
class RunOptions(Shown):
    """The rarer options of `run_training`: its processes, what it returns, the learning rate.

    Parameters
    ----------
    processes : int, optional
        At most so many processes; by default as many as the plan has devices.
    timeout_s : float
        How long a rank waits for another at most, seconds. The default is a guess: far above any iteration of the small
        models that run on CPU cores.
    silence_s : float
        A rank that gives no sign of life for so many seconds (it is stopped, or hangs) is ended; the error names it.
    against : str
        Name of the module with which the run is compared, for messages.
    keep : bool
        Whether to return gradients and weights. A comparison returns them in any case.
    audit : bool
        Whether torch's CommDebugMode counts the collectives as well; it is slow.
    learning_rate : float
        Of the plan's optimiser; the default is Adam's.
    precision : {"full", "bf16", "fp16"}
        Full: everything is of the run's dtype. Otherwise operators compute in that half precision, and weights have
        float32 masters (`stage.precision`). fp16 has no loss scaling.

    Raises
    ------
    InputError
        On a number that is out of its range.
    """

    processes: int | None = None
    timeout_s: float = 60.0
    silence_s: float = SILENCE_S
    against: str = "the module"
    keep: bool = False
    audit: bool = False
    learning_rate: float = 1e-3
    precision: Literal["full", "bf16", "fp16"] = "full"

    def __post_init__(self) -> None:
        if self.processes is not None and (isinstance(self.processes, bool) or self.processes < 1):
            raise InputError(f"run: processes: expected a positive integer (got {self.processes!r})")
        for name in ("timeout_s", "silence_s"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not (math.isfinite(value) and value > 0)
            ):
                raise InputError(f"run: {name}: expected finite positive seconds (got {value!r})")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise InputError(f"run: learning_rate: expected a finite number > 0 (got {self.learning_rate!r})")
