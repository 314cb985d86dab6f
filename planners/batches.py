"""The global batch of an iteration: what all planners of training refuse, and what divides it."""

from __future__ import annotations

from ..errors import InputError

__all__ = ["MAX_BATCH", "check_batch", "divisors"]

MAX_BATCH = 10_000_000
"""Samples of an iteration; planners try every divisor, and those of more are not tried while somebody waits."""


def check_batch(value: object, where: str = "") -> None:
    """Refuse what is no number of samples of an iteration.

    Raises
    ------
    InputError
        With `where` in front.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{where}global_batch: expected a positive integer (got {value!r})")
    if value > MAX_BATCH:
        raise InputError(f"{where}global_batch: expected at most {MAX_BATCH:,} samples (got {value})")


def divisors(n: int) -> tuple[int, ...]:
    """Divisors of a positive number, ascending."""
    small = [k for k in range(1, int(n**0.5) + 1) if n % k == 0]
    return tuple(small + [n // k for k in reversed(small) if k * k != n])
