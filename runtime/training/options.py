"""`RunOptions`: the rarer options of a training run on this machine."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from dataclasses import dataclass

from ...errors import InputError
from ...reprs import Shown
from ..children import SILENCE_S

__all__ = ["RunOptions"]


@dataclass(frozen=True, slots=True, repr=False)
class RunOptions(Shown):
    """How `run_training` starts processes, what it keeps, and how it learns.

    Parameters
    ----------
    processes : int, optional
        At most so many; as many as the plan has devices if left out.
    timeout_s : float
        Longest wait of a rank for another, seconds.
    silence_s : float
        A rank that gives no sign of life for so long (it is stopped, or hangs) is ended, and named, seconds.
    against : str
        What the module is called that the run is held against.
    keep : bool
        Whether to bring gradients and weights back (a comparison does).
    audit : bool
        Whether torch's CommDebugMode counts collectives too; slow.
    learning_rate : float
        Of the plan's optimiser.

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
