"""How many stages may follow one for its memory to suffice (Alpa, Eq. 5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....errors import InputError

__all__ = ["SCHEDULES", "in_flight", "later_stages"]

Floats = npt.NDArray[np.float64]

SCHEDULES = ("1f1b", "gpipe", "interleaved_1f1b", "zb_h1")
"""Schedules that the planner knows the memory of."""

_ALWAYS = 2**20  # more stages than any plan has


def in_flight(schedule: str, later: int, microbatches: int) -> int:
    """Microbatches whose activations a stage holds at most, with `later` stages after it.

    1F1B and ZB-H1, which only delays the backward pass of the weights: as many as there are stages from it to the end.
    GPipe: all.
    """
    if schedule not in SCHEDULES:
        raise InputError(f"schedule: expected one of {', '.join(SCHEDULES)} (got {schedule!r})")
    return microbatches if schedule == "gpipe" else min(later + 1, microbatches)


def later_stages(
    state: Floats, activation: Floats, work: Floats, memory_bytes: float, schedule: str, microbatches: int
) -> npt.NDArray[np.int64]:
    """Most stages that may follow, so that state + s · activation + work ≤ memory; −1: it does not fit as the last one.

    Parameters
    ----------
    state, activation, work : ndarray of float64
        Bytes on one device: weights with gradients and optimiser states, what one microbatch keeps, temporaries.
    memory_bytes : float
        Memory of one device.
    schedule : str
        See `in_flight`.
    microbatches : int
        B, microbatches of one iteration; no stage holds more.
    """
    room = memory_bytes - state - work
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The margin is a few rounding errors: an exact fit must not lose a microbatch to a quotient of 2.9999….
        held = np.where(room >= 0, np.floor(room / activation * (1 + 1e-12)), -1.0)
    held = np.where((activation <= 0) & (room >= 0), _ALWAYS, held)
    held = np.nan_to_num(held, nan=-1.0, posinf=_ALWAYS)
    most = np.where(held >= microbatches, _ALWAYS, held - 1)
    if schedule == "gpipe":
        most = np.where(held >= microbatches, _ALWAYS, -1)
    elif schedule not in SCHEDULES:
        raise InputError(f"schedule: expected one of {', '.join(SCHEDULES)} (got {schedule!r})")
    return np.clip(most, -1, _ALWAYS).astype(np.int64)
