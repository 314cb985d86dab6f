"""`check_batch` and `divisors`: which global batches the planners of training accept, and what divides one evenly."""

from __future__ import annotations

from ..errors import InputError

__all__ = ["MAX_BATCH", "check_batch", "divisors"]

MAX_BATCH = 10_000_000
"""Largest global batch, in samples. Planners try every divisor of it; the bound is a guess at the size beyond which a
batch is more likely a slip than a request."""


def check_batch(value: object, where: str = "") -> None:
    """Refuse a global batch that is not a positive integer, or is larger than `MAX_BATCH`.

    Raises
    ------
    InputError
        If it is refused; the message begins with `where`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{where}global_batch: expected a positive integer (got {value!r})")
    if value > MAX_BATCH:
        raise InputError(f"{where}global_batch: expected at most {MAX_BATCH:,} samples (got {value})")


def divisors(n: int) -> tuple[int, ...]:
    """Divisors of a positive number, ascending."""
    small = [k for k in range(1, int(n**0.5) + 1) if n % k == 0]
    return tuple(small + [n // k for k in reversed(small) if k * k != n])
