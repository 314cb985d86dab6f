"""Named random streams, which are independent of each other: drawing from one never changes what another draws.

So plans are compared on common random numbers: every policy sees the same arrivals, which cuts the variance of a
comparison.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import hashlib
from numbers import Integral
from typing import TYPE_CHECKING

from .errors import InputError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["generator", "seed_sequence", "spawned", "stream_digest"]


def seed_sequence(seed: int, *names: str | int) -> np.random.SeedSequence:
    """The `SeedSequence` of the stream `names` under `seed`, the same in every process.

    Raises
    ------
    InputError
        If `seed` is not an integer >= 0.
    """
    import numpy as np  # here, since torch runs without it, and exported programs draw nothing

    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"seed: expected an integer >= 0 (got {seed!r})")
    digest = stream_digest(*names)
    key = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return np.random.SeedSequence(int(seed), spawn_key=key)


def stream_digest(*names: str | int) -> bytes:
    """The key of the stream `names`: 16 bytes, four little-endian words."""
    # A hash that is the same in every process, unlike Python's own; the separator keeps ("a", "bc") from ("ab", "c").
    return hashlib.sha256("\x1f".join(str(name) for name in names).encode()).digest()[:16]


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A `numpy.random.Generator` for the stream `names` under `seed`."""
    import numpy as np

    return np.random.default_rng(seed_sequence(seed, *names))


def spawned(seed: int, k: int) -> int:
    """The seed of the k-th of many draws: draws under neighbouring seeds share none, as ``seed + k`` would."""
    import numpy as np

    return int(seed_sequence(seed, "draw", k).generate_state(1, np.uint64)[0])
