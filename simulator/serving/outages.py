"""`Outages`: when groups are away, and what becomes of the requests that they held."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...reprs import Shown
from ..placement import Placement

__all__ = ["Change", "Outages"]

IN_FLIGHT = ("retried", "lost")


class Change(NamedTuple):
    """A group comes back or goes away.

    Changes of one instant are in the order of this tuple: comebacks before failures, then by group.
    """

    at: float
    down: bool
    group: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Outages(Shown):
    """Times at which groups are away: a row for each, in any order.

    A group that goes down loses all requests whose answers the controller does not have by then. Rows of one group may
    overlap or touch: it is away in their union.

    Parameters
    ----------
    group : sequence of int
        The group, as the placement counts.
    down_s, up_s : sequence of float
        From when to when it is away, seconds; `up_s` includes loading its weights, and is ``inf`` if it stays away.
    in_flight : {"retried", "lost"}
        What becomes of the requests that it held: sent anew at that instant in order of arrival, with the deadline
        that they had; or failed.

    Raises
    ------
    InputError
        On columns of unequal length, a group or time that is negative or no number, an end before the beginning.
    """

    group: npt.NDArray[np.int64]
    down_s: npt.NDArray[np.float64]
    up_s: npt.NDArray[np.float64]
    in_flight: Literal["retried", "lost"] = "retried"

    def __init__(
        self,
        group: Sequence[int] | npt.NDArray[np.integer],
        down_s: Sequence[float] | npt.NDArray[np.float64],
        up_s: Sequence[float] | npt.NDArray[np.float64],
        in_flight: Literal["retried", "lost"] = "retried",
    ) -> None:
        which = np.asarray(group)
        begin, end = np.asarray(down_s, dtype=np.float64), np.asarray(up_s, dtype=np.float64)
        if not (which.ndim == begin.ndim == end.ndim == 1 and len(which) == len(begin) == len(end)):
            raise InputError(
                f"outages: expected three columns of one length (got {which.shape}, {begin.shape}, {end.shape})"
            )
        if len(which) and (not np.issubdtype(which.dtype, np.integer) or which.min() < 0):
            raise InputError(f"outages: group: expected integers >= 0 (got {which.tolist()[:5]})")
        for row in np.flatnonzero(~(np.isfinite(begin) & (begin >= 0))):
            raise InputError(f"outages: row {row}: down_s: expected finite seconds >= 0 (got {begin[row]})")
        for row in np.flatnonzero(~(end > begin)):
            raise InputError(f"outages: row {row}: up_s: expected seconds after down_s {begin[row]} (got {end[row]})")
        if in_flight not in IN_FLIGHT:
            raise InputError(f"outages: in_flight: expected one of {', '.join(IN_FLIGHT)} (got {in_flight!r})")
        object.__setattr__(self, "group", which.astype(np.int64))
        object.__setattr__(self, "down_s", begin)
        object.__setattr__(self, "up_s", end)
        object.__setattr__(self, "in_flight", in_flight)

    def __len__(self) -> int:
        return len(self.group)

    def _headline(self) -> str:
        return f"{len(self)} outages of {len(np.unique(self.group))} groups, requests in flight {self.in_flight}"

    def check(self, placement: Placement) -> None:
        """Raise `InputError` if a row names a group that the placement does not have."""
        if len(self) and self.group.max() >= len(placement.groups):
            raise InputError(
                f"outages: group {self.group.max()}: the placement has groups 0 to {len(placement.groups) - 1}"
            )

    def changes(self) -> list[Change]:
        """All comebacks and failures in the order in which they happen; overlapping rows of a group are one."""
        found: list[Change] = []
        for g in np.unique(self.group).tolist():
            mine = np.flatnonzero(self.group == g)
            mine = mine[np.lexsort((self.up_s[mine], self.down_s[mine]))]
            until = -1.0
            for begin, end in zip(self.down_s[mine].tolist(), self.up_s[mine].tolist(), strict=True):
                if begin > until:
                    found += [Change(until, False, g)] if until >= 0 else []
                    found.append(Change(begin, True, g))
                until = max(until, end)
            if until < np.inf:
                found.append(Change(until, False, g))
        return sorted(found)

    def away_s(self, n_groups: int, horizon_s: float) -> npt.NDArray[np.float64]:
        """Seconds for which each group is away up to `horizon_s`, shape (n_groups,)."""
        away = np.zeros(n_groups)
        for at, down, g in self.changes():
            away[g] += (1.0 if down else -1.0) * max(horizon_s - at, 0.0)
        return away
