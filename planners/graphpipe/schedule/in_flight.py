"""How many samples a stage must have in flight (GraphPipe, Table 3.2), and the k with the fewest (§3.10.2).

A sample is in flight on a stage from its forward pass until its backward pass has ended. Take kFkB with k_x, b_x on a
stage x, and k_y, b_y on a stage y after it. Then x needs as many samples in flight as y has, and enough more that y
never waits for x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InputError

__all__ = ["Config", "Successor", "held_samples", "in_flight", "in_flight_offset", "last_in_flight", "schedule_stage"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Config:
    """How a stage takes its samples.

    Parameters
    ----------
    microbatch : int
        b, samples of one microbatch.
    k : int
        Number of forward passes that alternate with as many backward passes; 1 is 1F1B.
    """

    microbatch: int
    k: int = 1


@dataclass(frozen=True, slots=True)
class Successor:
    """A stage that reads what another makes.

    Parameters
    ----------
    microbatch, k : int
        Same as in `Config`.
    in_flight : int
        Samples that it has in flight.
    """

    microbatch: int
    k: int
    in_flight: int


def in_flight_offset(kx: npt.ArrayLike, bx: npt.ArrayLike, ky: npt.ArrayLike, by: npt.ArrayLike) -> Ints:
    """How many more samples x must have in flight than y: Table 3.2 without the term i_y, which every row adds.

    Parameters
    ----------
    kx, bx, ky, by : array_like of int
        k and microbatch of the earlier stage x and of the later stage y; they broadcast. The table is stated for powers
        of two.

    Raises
    ------
    InputError
        If a number is below one.
    """
    k_x, b_x, k_y, b_y = (np.asarray(v, np.int64) for v in (kx, bx, ky, by))
    if min(int(v.min(initial=1)) for v in (k_x, b_x, k_y, b_y)) < 1:
        raise InputError("in_flight: k and microbatch: expected positive integers")
    x, y, most = k_x * b_x, k_y * b_y, np.maximum(b_x, b_y)
    fewer = np.where(x < b_y, b_y, np.where(x == most, most, 2 * most))  # rows 9, 2, 1
    equal = np.where(x == most, y, 2 * most)  # rows 7, 8
    more = np.where(y < b_x, x - y + b_x, np.where(y == most, x, x - y + 2 * most))  # rows 10, 4 and 6, 3 and 5
    return np.where(x < y, fewer, np.where(x == y, equal, more))


def in_flight(
    kx: npt.ArrayLike, bx: npt.ArrayLike, ky: npt.ArrayLike, by: npt.ArrayLike, iy: npt.ArrayLike
) -> Ints:  # fmt: skip
    """Samples that x must have in flight so that y, which has i_y, never waits (ComputeInFlight, Table 3.2).

    The number need not be a multiple of x's microbatch; `held_samples` rounds it up.

    Parameters
    ----------
    kx, bx, ky, by : array_like of int
        The same as in `in_flight_offset`.
    iy : array_like of int
        Samples in flight on y.

    Raises
    ------
    InputError
        If a number is below one.
    """
    held = np.asarray(iy, np.int64)
    if int(held.min(initial=1)) < 1:
        raise InputError("in_flight: expected at least one sample in flight on the later stage")
    return held + in_flight_offset(kx, bx, ky, by)


def last_in_flight(config: Config) -> int:
    """Samples in flight on a last stage: one turn of k microbatches."""
    return config.k * config.microbatch


def held_samples(in_flight: npt.ArrayLike, microbatch: npt.ArrayLike, global_batch: int) -> Ints:
    """Samples that a stage really holds: rounded up to whole microbatches, and at most the global batch."""
    i, b = np.asarray(in_flight, np.int64), np.asarray(microbatch, np.int64)
    return np.minimum(-(-i // b) * b, global_batch)


def schedule_stage(microbatch: int, successors: Sequence[Successor], ks: Sequence[int]) -> tuple[int, int]:
    """Choose k_x, the k that needs the fewest samples in flight for all successors (§3.10.2); returns k and that
    number.

    Parameters
    ----------
    microbatch : int
        b_x, microbatch size of the stage.
    successors : sequence of Successor
        Stages that read what this one makes; none for a last stage.
    ks : sequence of int
        Candidates; among equals the first is taken.

    Raises
    ------
    InputError
        If there is no candidate.
    """
    if not ks:
        raise InputError("schedule_stage: ks: expected at least one k")
    found: list[tuple[int, int]] = []
    for k in ks:
        needed = [int(in_flight(k, microbatch, y.k, y.microbatch, y.in_flight)) for y in successors]
        found.append((max(needed, default=last_in_flight(Config(microbatch, k))), k))
    # Least memory; of equal ones the k that is named first, so that callers rank them.
    best = min(range(len(found)), key=lambda n: (found[n][0], n))
    return found[best][1], found[best][0]
