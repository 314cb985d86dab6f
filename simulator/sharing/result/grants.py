"""`Grant` and `Grants`: what was decided, of which there may be hundreds of thousands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

__all__ = ["Grant", "Grants"]


class Grant(NamedTuple):
    """An app's GPUs after a decision."""

    at_s: float
    app: int
    gpus: tuple[int, ...]


class Grants(Sequence[Grant]):
    """Grants kept in arrays: each is made when it is asked for.

    Parameters
    ----------
    seconds, apps : ndarray, shape (n,)
        When, and to which app.
    first : ndarray of int, shape (n + 1,)
        First GPU of each in `gpus`, and their number.
    gpus : ndarray of int
        One grant's after the other's, ascending.
    """

    def __init__(
        self, seconds: npt.NDArray[np.float64], apps: npt.NDArray[np.int64], first: npt.NDArray[np.int64],
        gpus: npt.NDArray[np.int64],
    ) -> None:  # fmt: skip
        self._seconds, self._apps, self._first, self._gpus = seconds, apps, first, gpus

    def __len__(self) -> int:
        return len(self._seconds)

    @overload
    def __getitem__(self, k: int) -> Grant: ...
    @overload
    def __getitem__(self, k: slice) -> tuple[Grant, ...]: ...
    def __getitem__(self, k: int | slice) -> Grant | tuple[Grant, ...]:
        if isinstance(k, slice):
            return tuple(self[i] for i in range(*k.indices(len(self))))
        if k < 0:
            k += len(self)
        if not 0 <= k < len(self):
            raise IndexError(k)
        gpus = tuple(self._gpus[self._first[k] : self._first[k + 1]].tolist())
        return Grant(float(self._seconds[k]), int(self._apps[k]), gpus)

    def __iter__(self) -> Iterator[Grant]:
        first, gpus = self._first.tolist(), self._gpus.tolist()
        for k, (at_s, app) in enumerate(zip(self._seconds.tolist(), self._apps.tolist(), strict=True)):
            yield Grant(at_s, app, tuple(gpus[first[k] : first[k + 1]]))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Grants | tuple):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list
