"""`Configs`: the schedule configurations (b, k) of a search, and Table 3.2 for every pair of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .in_flight import Config, in_flight_offset, last_in_flight

__all__ = ["Configs"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Configs:
    """The configurations of one search.

    Parameters
    ----------
    all : tuple of Config
        The configurations.
    sizes : ndarray of int64, shape (n,)
        Index of each one's microbatch size among the priced ones.
    offset : ndarray of int64, shape (n, n + 1)
        [x, y]: how many more samples a stage x has in flight than the stage y after it. The last column stands for the
        end of the pipeline and holds x's own turn, k · b.
    least : ndarray of int64, shape (n + 1,)
        Fewest samples that each has in flight; 0 for the end.
    """

    all: tuple[Config, ...]
    sizes: Ints
    offset: Ints
    least: Ints

    @classmethod
    def of(cls, microbatches: Sequence[int], ks: Sequence[int], priced: Sequence[int]) -> Configs:
        """All pairs of a microbatch size and a k whose turn k · b is no longer than the largest microbatch.

        Longer turns would hold more samples in flight than the largest microbatch does, for the same bottleneck. k = 1
        is always among them.
        """
        most = max(microbatches)
        every = tuple(Config(b, k) for b in microbatches for k in ks if k == 1 or k * b <= most)
        b = np.array([c.microbatch for c in every], np.int64)
        k = np.array([c.k for c in every], np.int64)
        own = np.array([last_in_flight(c) for c in every], np.int64)
        between = in_flight_offset(k[:, None], b[:, None], k[None, :], b[None, :])
        number = {size: n for n, size in enumerate(priced)}
        return cls(
            every,
            np.array([number[c.microbatch] for c in every], np.int64),
            np.ascontiguousarray(np.concatenate([between, own[:, None]], axis=1)),
            np.append(own, 0),
        )

    @property
    def end(self) -> int:
        """The configuration that stands for the end of the pipeline."""
        return len(self.all)
