"""Named random streams: drawing from one never moves another, so plans are compared on common random numbers."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import hashlib

import numpy as np

from .errors import InputError

__all__ = ["generator", "seed_sequence"]


def seed_sequence(seed: int, *names: str | int) -> np.random.SeedSequence:
    """The `SeedSequence` of the stream `names` under `seed`, the same in every process.

    Raises
    ------
    InputError
        If `seed` is not an integer >= 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed: expected an integer >= 0 (got {seed!r})")
    digest = hashlib.sha256("\x1f".join(str(name) for name in names).encode()).digest()
    key = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return np.random.SeedSequence(int(seed), spawn_key=key)


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A `numpy.random.Generator` for the stream `names` under `seed`."""
    return np.random.default_rng(seed_sequence(seed, *names))
