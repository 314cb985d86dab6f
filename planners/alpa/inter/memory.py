"""How many stages may follow one for its memory to suffice (Alpa, Eq. 5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....errors import InputError

__all__ = ["SCHEDULES", "in_flight", "later_stages"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SCHEDULES = ("1f1b", "gpipe", "interleaved_1f1b", "zb_h1")
"""Schedules that the planner knows the memory of."""

_ALWAYS = 2**20  # more stages than any plan has


def in_flight(schedule: str, stage: int, n_stages: int, microbatches: int) -> int:
    """Microbatches whose activations a stage holds at most.

    1F1B: as many as there are stages from it to the end. GPipe: all. ZB-H1: as many as there are stages, on each of
    them: stage s of p runs p − 1 − s forward passes ahead of the first backward, and the weights' half of a backward
    comes s backward passes late (Qi et al. 2023, ZB1P). Until then it needs its activations.
    """
    _check(schedule)
    if schedule == "gpipe":
        return microbatches
    return min(n_stages if schedule == "zb_h1" else n_stages - stage, microbatches)


def later_stages(
    state: Floats,
    activation: Floats,
    work: Floats,
    memory_bytes: float | Floats,
    schedule: str,
    microbatches: int,
) -> list[Integers]:
    """Most stages that may follow, so that state + s · activation + work ≤ memory; −1: it does not fit as the last one.

    Where what a stage holds depends on those before it (ZB-H1), there are several answers: one for each number of
    stages at which some stage begins not to fit. A plan fits if all of its stages fit by one of them, so the best plan
    is the best over all.

    Parameters
    ----------
    state, activation, work : ndarray of float64
        Bytes on one device: weights with gradients and optimiser states, what one microbatch keeps, temporaries. Their
        first axis is layers: a plan has no more stages.
    memory_bytes : float or ndarray
        Memory of one device; an array that is broadcast where devices differ.
    schedule : str
        See `in_flight`.
    microbatches : int
        B, microbatches of one iteration; no stage holds more.
    """
    _check(schedule)
    room = memory_bytes - state - work
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The margin is a few rounding errors: an exact fit must not lose a microbatch to a quotient of 2.9999….
        held = np.where(room >= 0, np.floor(room / activation * (1 + 1e-12)), -1.0)
    held = np.where((activation <= 0) & (room >= 0), _ALWAYS, held)
    held = np.nan_to_num(held, nan=-1.0, posinf=_ALWAYS)
    if schedule == "gpipe":
        return [np.where(held >= microbatches, _ALWAYS, -1)]
    if schedule != "zb_h1":
        return [np.clip(np.where(held >= microbatches, _ALWAYS, held - 1), -1, _ALWAYS).astype(np.int64)]
    most = np.clip(np.where(held >= microbatches, len(held), held), 0, len(held)).astype(np.int64)
    counts = [n for n in np.unique(most).tolist() if n > 0] or [1]
    return [np.where(most >= n, n - 1, -1) for n in counts]


def _check(schedule: str) -> None:
    if schedule not in SCHEDULES:
        raise InputError(f"schedule: expected one of {', '.join(SCHEDULES)} (got {schedule!r})")
