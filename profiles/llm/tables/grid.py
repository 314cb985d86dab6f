"""`Grid`: measured seconds on a sorted rectangular grid, read between its points and, never silently, beyond them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ....reprs import Shown
from .outliers import Outlier, above, contradicting, envelope, spiking
from .tiles import Tiles

__all__ = ["EXTRAPOLATED", "INTERPOLATED", "KINDS", "MEASURED", "Grid"]

Floats = NDArray[np.float64]
Bytes = NDArray[np.int8]

MEASURED, INTERPOLATED, EXTRAPOLATED = 0, 1, 2
KINDS = ("measured", "interpolated", "extrapolated by roofline")
"""What a number rests on, from the surest; a sum rests on its weakest part."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Grid(Shown):
    """Seconds at every combination of some coordinates.

    Cells are those of the measured, mostly geometric, grid. Inside a cell the time is affine in each coordinate: a
    launch and work at a rate, which is what kernels do; on held-out points of the public tables this errs less than
    straight lines between logarithms, which lie above every affine law. ``log=True`` takes logarithms on both sides,
    for power laws. Points that were not measured (grids are ragged where memory ends) are filled by the roofline
    with the efficiency of the nearest measured point, and say so when they are used.

    Parameters
    ----------
    names : tuple of str
        Names of the coordinates.
    axes : tuple of array
        Sorted coordinates.
    seconds : array
        Measured or filled seconds.
    measured : array of bool
        Whether each point was measured.
    ideal : callable
        Roofline seconds at given coordinates, on which everything outside the measured points rests.
    log : bool
        Whether to read between logarithms.
    aside : tuple of Outlier
        Measured points that contradict others (`outliers`): they are taken as not measured, and lie between the
        points that are nowhere larger and nowhere smaller.
    tiles : Tiles, optional
        Steps along the first coordinate, where they are known: between points, time goes by them.
    """

    names: tuple[str, ...]
    axes: tuple[Floats, ...]
    seconds: Floats
    measured: NDArray[np.bool_]
    ideal: Callable[..., Any]
    log: bool = False
    aside: tuple[Outlier, ...] = ()
    tiles: Tiles | None = None

    @classmethod
    def build(
        cls,
        names: Sequence[str],
        columns: Sequence[Any],
        seconds: Any,
        ideal: Callable[..., Any],
        log: bool = False,
        kinds: Sequence[str] = (),
        believe: bool = False,
        slow: float = np.inf,
        efficient: bool = True,
    ) -> Grid:
        """Put rows of measurements on a grid; repeated ones become their median, contradicting ones are set aside.

        Parameters
        ----------
        names, columns, seconds
            Coordinates by name, one array each, and the measured seconds.
        ideal : callable
            Roofline seconds at given coordinates.
        log : bool
            Whether to read between logarithms.
        kinds : sequence of str
            Coordinates along which another kernel may run: more of them may take less time.
        believe : bool
            Whether points that contradict others are kept all the same.
        slow : float
            Points above so many times the roofline are set aside, where it is a law of that very kernel.
        efficient : bool
            Whether shares of the roofline may be compared among neighbours: not where it is only what time grows with.
        """
        import pandas
        from scipy.ndimage import distance_transform_edt

        pd: Any = pandas  # its own types are partly unknown
        frame = pd.DataFrame(dict(zip(names, columns, strict=True)) | {"seconds": np.asarray(seconds, dtype=float)})
        series = frame.groupby(list(names), sort=True)["seconds"].median()
        axes = tuple(np.unique(np.asarray(column, dtype=float)) for column in columns)
        full = np.full([len(axis) for axis in axes], np.nan)
        at = tuple(
            np.searchsorted(axis, np.asarray(series.index.get_level_values(i), dtype=float))
            for i, axis in enumerate(axes)
        )
        full[at] = series.to_numpy()
        known = ~np.isnan(full)
        same = tuple(names.index(name) for name in kinds)
        aside: tuple[Outlier, ...] = ()
        best = np.asarray(ideal(*np.meshgrid(*axes, indexing="ij")), dtype=float)
        if not believe:
            for find in (
                lambda: above(axes, full, known, best, slow),
                lambda: contradicting(axes, full, known, same),
                lambda: spiking(axes, full, known, best, same) if efficient else (),
            ):
                for point in (found := find()):
                    known[tuple(int(np.searchsorted(a, x)) for a, x in zip(axes, point.where, strict=True))] = False
                aside += found
            aside = tuple(sorted(aside, key=lambda point: -point.times))
        if not known.any():
            full = best
        elif not known.all():
            nearest = tuple(cast(Any, distance_transform_edt(~known, return_distances=False, return_indices=True)))
            # Missing points take the efficiency of the nearest measured one: efficiency varies less than seconds do.
            filled = full[nearest] * best / best[nearest]
            if aside:  # what fills their place contradicts nobody
                low, high = envelope(full, known, same)
                low = np.where((low > 0) | np.isinf(high), low, high)  # below all others a kernel is all launch
                between = np.minimum(np.maximum(filled, low), np.maximum(high, low))
                filled = np.where(np.isnan(full), filled, between)
            full = np.where(known, full, filled)
        for array in (*axes, full, known):
            array.setflags(write=False)
        return cls(tuple(names), axes, full, known, ideal, log, aside)

    def at(self, *where: Any) -> tuple[Floats, Bytes]:
        """Seconds at coordinates, and what each rests on (an index into `KINDS`).

        Below the grid a kernel is all launch: the edge's time. Beyond it: the roofline with the edge's efficiency.
        """
        points: list[Floats] = [np.array(x, dtype=float) for x in np.broadcast_arrays(*where)]
        kind = np.zeros(points[0].shape, dtype=np.int8)
        if self.tiles is not None:
            scheduled = points[0]
            points[0] = self.tiles.padded(scheduled, self.axes[0])
            kind[points[0] != scheduled] = INTERPOLATED
        cells: list[NDArray[np.intp]] = []
        weights: list[Floats] = []
        inside: list[Floats] = []
        beyond = np.zeros(points[0].shape, dtype=bool)
        for axis, x in zip(self.axes, points, strict=True):
            held = np.clip(x, axis[0], axis[-1])
            inside.append(held)
            beyond |= x > axis[-1]
            kind[x != held] = EXTRAPOLATED
            if len(axis) == 1:
                cells.append(np.zeros(x.shape, dtype=np.intp))
                weights.append(np.zeros(x.shape))
                continue
            cell = np.clip(np.searchsorted(axis, held, side="right") - 1, 0, len(axis) - 2)
            low, high = axis[cell], axis[cell + 1]
            weight = np.log(held / low) / np.log(high / low) if self.log else (held - low) / (high - low)
            kind = np.where((weight > 0) & (weight < 1), np.maximum(kind, INTERPOLATED), kind)
            cells.append(cell)
            weights.append(np.asarray(weight, dtype=float))
        values = np.log(self.seconds) if self.log else self.seconds
        total = np.zeros(points[0].shape)
        for corner in product((0, 1), repeat=len(self.axes)):
            share = np.ones(points[0].shape)
            index: list[NDArray[np.intp]] = []
            for side, cell, weight, axis in zip(corner, cells, weights, self.axes, strict=True):
                share = share * (weight if side else 1 - weight)
                index.append(np.minimum(cell + side, len(axis) - 1))
            used = share > 0
            total = total + np.where(used, share * values[tuple(index)], 0.0)
            kind = np.where(used & ~self.measured[tuple(index)], EXTRAPOLATED, kind)
        seconds = np.exp(total) if self.log else total
        if beyond.any():
            outside = [np.maximum(x, axis[0]) for x, axis in zip(points, self.axes, strict=True)]
            ratio = np.asarray(self.ideal(*outside), dtype=float) / np.asarray(self.ideal(*inside), dtype=float)
            # More work never takes less time, even where the roofline's own terms cross.
            seconds = np.where(beyond, seconds * np.maximum(ratio, 1.0), seconds)
        return seconds, kind.astype(np.int8)

    @property
    def best_share(self) -> float:
        """The best measured kernel's rate as a share of the roofline's; points that were set aside do not count."""
        ideal = np.asarray(self.ideal(*np.meshgrid(*self.axes, indexing="ij")), dtype=float)
        return float((ideal / self.seconds)[self.measured].max())

    def held_out(self, axis: int) -> Floats:
        """Relative errors where every second measured value of one axis is left out and read between its neighbours.

        Twice the gap of the real grid: errors there are smaller, by about four where the law is smooth.
        """
        size = len(self.axes[axis])
        kept = np.arange(0, size, 2)
        left = np.arange(1, size - 1 if size % 2 == 0 else size, 2)
        axes = list(self.axes)
        axes[axis] = self.axes[axis][kept]
        part = Grid(
            self.names,
            tuple(axes),
            np.take(self.seconds, kept, axis),
            np.take(self.measured, kept, axis),
            self.ideal,
            self.log,
            tiles=self.tiles,
        )
        axes[axis] = self.axes[axis][left]
        guess, kind = part.at(*np.meshgrid(*axes, indexing="ij"))
        true = np.take(self.seconds, left, axis)
        known = np.take(self.measured, left, axis) & (kind != EXTRAPOLATED)
        return guess[known] / true[known] - 1
