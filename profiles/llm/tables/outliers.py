"""Find points of a measured table that contradict others (more work in less time), to set them aside and report them.

A kernel that does more in every size takes no less time, up to what another tile or another way costs. Public tables
keep to that within `TOLERANCE` but for a few points in a thousand, which are up to five times slower than larger ones:
clocks that had dropped, a neighbour, a way chosen badly. Whose fault a contradiction is, the number of contradictions
tells: the point that most others speak against goes first, of two alike the slower one, until none is left.

Order alone misses a slow point beside a far larger one. So what is left is held against the roofline, too: a point
that is less efficient than both neighbours along a size stands out (`spiking`), and so does one far above a law that
is known for its kind (`above`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "TOLERANCE", "Outlier", "SetAside", "above", "contradicting", "envelope", "outlier_lines", "set_aside", "spiking",
]  # fmt: skip

Floats = NDArray[np.float64]
TOLERANCE = 1.3
"""How many times slower than a larger one a point may be: kernels change their tiles and ways along a size."""
SPIKE, TWICE_SPIKE = 1.4, 1.25
"""How many times less efficient than both neighbours a point is along one size, or along each of two, to be set aside.
Chosen on H100 GEMMs with those of H200s, of the same rates, for the truth: of 8,672 such bf16 points the 31 that are
left by order and go by this are 1.4 x the H200's in the median, all others 1.05 x."""
PAIRS = 100_000_000
"""Most pairs that are weighed against each other; above, every point that is slower than a larger one goes."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A point that was set aside.

    Parameters
    ----------
    where : tuple of float
        Its coordinates.
    seconds : float
        Seconds that were measured there.
    against, other_s : tuple of float, float
        The point that contradicts it most, and its seconds; where the roofline or a law does, what it says there.
    why : str
        ``order``: more work in less time; ``spike``: less efficient than both neighbours; ``law``: far above a law.
    """

    where: tuple[float, ...]
    seconds: float
    against: tuple[float, ...]
    other_s: float
    why: str = "order"

    @property
    def times(self) -> float:
        """How far the two are apart; above `TOLERANCE` where order is broken."""
        return max(self.seconds / self.other_s, self.other_s / self.seconds)


REASONS = {
    "order": f"more work in less time by more than {TOLERANCE:g} x",
    "spike": "less efficient than both neighbours",
    "law": "far slower than the links give",
}


@dataclass(frozen=True, slots=True)
class SetAside:
    """What was set aside of one table.

    Parameters
    ----------
    table : str
        The table.
    names : tuple of str
        Names of the coordinates.
    points : tuple of Outlier
        The points that were set aside, the worst first.
    measured : int
        Points that were measured.
    """

    table: str
    names: tuple[str, ...]
    points: tuple[Outlier, ...]
    measured: int

    def __str__(self) -> str:
        worst = self.points[0]
        here, there = (
            ", ".join(f"{name} {value:g}" for name, value in zip(self.names, at, strict=True))
            for at in (worst.where, worst.against)
        )
        count = {why: sum(p.why == why for p in self.points) for why in REASONS}
        why = ", ".join(
            said if n == len(self.points) else f"{n} {said}" for (w, said) in REASONS.items() if (n := count[w])
        )
        other = there if worst.why == "order" else "expected"
        return (
            f"set aside: {len(self.points)} of {self.measured} points of {self.table}, {why}; read from their "
            f"neighbours (worst: {here} takes {1e6 * worst.seconds:.1f} us, {other} {1e6 * worst.other_s:.1f} us)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Every point, for JSON."""
        return {
            "table": self.table,
            "measured": self.measured,
            "points": [
                {
                    **dict(zip(self.names, p.where, strict=True)),
                    "seconds": p.seconds,
                    "why": p.why,
                    "against": dict(zip(self.names, p.against, strict=True)),
                    "against_s": p.other_s,
                }
                for p in self.points
            ],
        }


def outlier_lines(found: tuple[SetAside, ...]) -> list[str]:
    """One line for each table, those with the most outliers first."""
    return [str(each) for each in sorted(found, key=lambda each: -len(each.points))]


def envelope(seconds: Floats, known: NDArray[np.bool_], kinds: tuple[int, ...] = ()) -> tuple[Floats, Floats]:
    """For each point the slowest known one that is nowhere larger, and the fastest one that is nowhere smaller."""
    low, high = np.where(known, seconds, 0.0), np.where(known, seconds, np.inf)
    for axis in set(range(seconds.ndim)) - set(kinds):
        low = np.maximum.accumulate(low, axis)
        high = np.flip(np.minimum.accumulate(np.flip(high, axis), axis), axis)
    return low, high


def contradicting(
    axes: tuple[Floats, ...], seconds: Floats, known: NDArray[np.bool_], kinds: tuple[int, ...] = ()
) -> tuple[Outlier, ...]:
    """Points of a grid that contradict others, the worst first.

    Parameters
    ----------
    axes : tuple of array
        Coordinates.
    seconds : array
        Measured seconds.
    known : array of bool
        Whether each point was measured.
    kinds : tuple of int
        Axes along which another kernel may run: points are compared at the same coordinate there.
    """
    low, high = envelope(seconds, known, kinds)
    slow = np.argwhere(known & (seconds > TOLERANCE * high))
    if not len(slow):
        return ()
    fast = np.argwhere(known & (low > TOLERANCE * seconds))
    a, b = seconds[tuple(slow.T)], seconds[tuple(fast.T)]
    # The matrix below would take too much memory; this sets aside at least as many points, never fewer.
    if len(a) * len(b) > PAIRS:
        return _outliers(axes, seconds, [(tuple(i), tuple(fast[int(np.argmin(b))])) for i in slow])
    against = a[:, None] > TOLERANCE * b[None, :]
    for axis in range(seconds.ndim):
        here, there = slow[:, None, axis], fast[None, :, axis]
        against &= (here == there) if axis in kinds else (here <= there)
    # A point may stand on both sides: slower than a larger one, and faster than a smaller one.
    place = {tuple(i): n for n, i in enumerate(slow.tolist())}
    twin = np.array([place.get(tuple(i), -1) for i in fast.tolist()])
    both = twin >= 0
    gone: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    rows, columns = against.sum(1), against.sum(0)
    while rows.any():
        count = rows.copy()
        np.add.at(count, twin[both], columns[both])
        alone = np.where(both, 0, columns)
        if count.max() >= alone.max():
            # Disturbances only ever make a kernel slower, so of two points as suspect the slower one is at fault.
            tied = np.flatnonzero(count == count.max())
            row = int(tied[np.argmax(a[tied])])
            column = int(np.flatnonzero(both & (twin == row))[0]) if (both & (twin == row)).any() else -1
        else:
            row, column = -1, int(np.argmax(alone))
        gone.append(
            (tuple((slow[row] if row >= 0 else fast[column]).tolist()), _worst(against, slow, fast, a, b, row, column))
        )
        if row >= 0:
            columns = columns - against[row]
            against[row] = False
            rows[row] = 0
        if column >= 0:
            rows = rows - against[:, column]
            against[:, column] = False
            columns[column] = 0
    return _outliers(axes, seconds, gone)


def spiking(
    axes: tuple[Floats, ...],
    seconds: Floats,
    known: NDArray[np.bool_],
    ideal: Floats,
    kinds: tuple[int, ...] = (),
) -> tuple[Outlier, ...]:
    """Points that take more times their roofline than both neighbours along one size or two.

    Parameters
    ----------
    axes, seconds, known, kinds
        As of `contradicting`.
    ideal : array
        Roofline seconds of every point.
    """
    if not (ideal > 0).all():
        return ()
    share = np.where(known, seconds / ideal, np.nan)
    times: list[Floats] = []
    for axis in set(range(seconds.ndim)) - set(kinds):
        there = np.full(share.shape, np.nan)
        size = share.shape[axis]
        if size > 2:
            low, middle, high = (np.moveaxis(share, axis, 0)[i : size - 2 + i] for i in range(3))
            # NaN where a neighbour was not measured: nothing is held against the point then.
            np.moveaxis(there, axis, 0)[1 : size - 1] = middle / np.maximum(low, high)
        times.append(there)
    if not times:
        return ()
    most = np.nan_to_num(np.sort(np.nan_to_num(np.stack(times)), axis=0))
    second = most[-2] if len(most) > 1 else np.zeros(seconds.shape)
    found = np.argwhere((most[-1] > SPIKE) | (second > TWICE_SPIKE))
    return _against(axes, seconds, found, seconds / np.maximum(most[-1], 1), "spike")


def above(
    axes: tuple[Floats, ...], seconds: Floats, known: NDArray[np.bool_], ideal: Floats, times: float
) -> tuple[Outlier, ...]:
    """Points that take more than so many times what a law says."""
    return _against(axes, seconds, np.argwhere(known & (seconds > times * ideal)), ideal, "law")


def _against(axes: tuple[Floats, ...], seconds: Floats, found: Any, expected: Floats, why: str) -> tuple[Outlier, ...]:
    made: list[Outlier] = []
    for index in map(tuple, found):
        where = tuple(float(axis[i]) for axis, i in zip(axes, index, strict=True))
        made.append(Outlier(where, float(seconds[index]), where, float(expected[index]), why))
    return tuple(sorted(made, key=lambda point: -point.times))


def _worst(
    against: NDArray[np.bool_], slow: Any, fast: Any, a: Floats, b: Floats, row: int, column: int
) -> tuple[int, ...]:
    """The point that contradicts one most."""
    if row >= 0 and against[row].any():
        return tuple(fast[int(np.argmin(np.where(against[row], b, np.inf)))].tolist())
    return tuple(slow[int(np.argmax(np.where(against[:, column], a, 0.0)))].tolist())


def _outliers(axes: tuple[Floats, ...], seconds: Floats, gone: Any) -> tuple[Outlier, ...]:
    def at(index: Any) -> tuple[float, ...]:
        return tuple(float(axis[i]) for axis, i in zip(axes, index, strict=True))

    found = [Outlier(at(i), float(seconds[i]), at(j), float(seconds[j])) for i, j in gone]
    return tuple(sorted(found, key=lambda point: -point.times))


def set_aside(tables: Mapping[str, Any]) -> tuple[SetAside, ...]:
    """What was set aside of some grids, by the tables' names."""
    return tuple(
        SetAside(name, grid.names, grid.aside, int(grid.measured.sum()) + len(grid.aside))
        for name, grid in tables.items()
        if grid.aside
    )
