"""`Pipeline`: seconds of slices on every stage of a layout, as grids for the search, and exactly for given slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .cells import Cell
from .latency import SliceLatency
from .layouts import Layout
from .messages import Message
from .slicing import Slice

__all__ = ["Clock", "Grids", "Pipeline"]

Floats = npt.NDArray[np.float64]


class Clock(Protocol):
    """Source of the seconds of slices: the costs of a cell, or measurements."""

    def seconds(self, samples: int, length: int, context: int = 0) -> tuple[float, float]:
        """Forward and backward seconds of one slice."""
        ...

    def latencies(self, samples: Sequence[int], unit: int) -> tuple[SliceLatency, SliceLatency]:
        """Forward and backward seconds as Eq. 2.9 has them."""
        ...


@dataclass(frozen=True, eq=False)
class Grids:
    """The inputs of `slice_pipeline`, and how well Eq. 2.9 fits the costs.

    Parameters
    ----------
    total : ndarray, shape (b, n, n)
        Seconds on the slowest stage, both directions together.
    fills : (ndarray, ndarray)
        Seconds on all other stages, forward and backward.
    exact : ndarray of bool, shape (b, n, n)
        Where the seconds are the clock's own and not those of Eq. 2.9.
    overhead_error, error : float
        Largest errors over all cells and directions, as in `SliceLatency`.
    """

    total: Floats
    fills: tuple[Floats, Floats]
    exact: npt.NDArray[np.bool_]
    overhead_error: float
    error: float


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The stages of a layout.

    Parameters
    ----------
    layout : Layout
        Degrees of parallelism, and meshes.
    cells : tuple of Cell
        Cell of each stage: its plan and memory.
    clocks : tuple of Clock
        Source of each stage's seconds; by default its cell.
    forward, backward : tuple of Message
        Messages from stage s to s + 1, and back.
    tokens : int
        L, tokens of a sequence.
    overlap : bool
        Whether messages overlap with computation.
    """

    layout: Layout
    cells: tuple[Cell, ...]
    clocks: tuple[Clock, ...]
    forward: tuple[Message, ...]
    backward: tuple[Message, ...]
    tokens: int
    overlap: bool = False
    _exact: dict[tuple[int, int, int, int], tuple[float, float]] = field(
        default_factory=dict[tuple[int, int, int, int], tuple[float, float]], repr=False
    )

    @cached_property
    def kinds(self) -> dict[tuple[int, Message, Message, Message, Message], int]:
        """How many stages there are of each kind: (clock, messages in and out in both directions) -> number."""
        found: Counter[tuple[int, Message, Message, Message, Message]] = Counter()
        for s in range(len(self.cells)):
            found[(id(self.clocks[s]), *self._around(s))] += 1
        return dict(found)

    def grids(self, samples: Sequence[int], unit: int, exact: bool) -> Grids:
        """Grids over lengths and contexts that are multiples of `unit`."""
        n = self.tokens // unit
        errors: list[tuple[float, float]] = []
        tables: dict[int, tuple[Floats, Floats]] = {}
        for clock in {id(x): x for x in self.clocks}.values():
            if exact:
                tables[id(clock)] = self._every(clock, samples, unit)
                continue
            both = clock.latencies(samples, unit)
            errors += [(x.overhead_error, x.error) for x in both if x.held_out]
            tables[id(clock)] = (both[0].table(self.tokens, unit, samples), both[1].table(self.tokens, unit, samples))
        share = np.arange(1, max(samples) + 1)[:, None, None] * (np.arange(1, n + 1) * unit / self.tokens)[None, None]
        total, fills = self._joined(tables, share)
        return Grids(
            total,
            fills,
            np.full(total.shape, exact),
            max((e[0] for e in errors), default=float("nan")),
            max((e[1] for e in errors), default=float("nan")),
        )

    def sharpen(self, grids: Grids, slices: Sequence[Slice], unit: int) -> bool:
        """Put the exact seconds of some slices into the grids; returns whether any was new."""
        places: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
        for piece in dict.fromkeys(slices):
            each = [self.slice_seconds(s, piece) for s in range(len(self.cells))]
            context = 0
            for k, length in enumerate(piece.tokens):
                at = (piece.samples - 1, context // unit, length // unit - 1)
                if not grids.exact[at]:
                    places[at] = [mine[k] for mine in each]
                context += length
        if not places:
            return False
        index = tuple(np.array(column) for column in zip(*places, strict=True))
        tables = {
            id(clock): (
                np.array([x[s][0] for x in places.values()]),
                np.array([x[s][1] for x in places.values()]),
            )
            for s, clock in enumerate(self.clocks)
        }
        total, fills = self._joined(tables, (index[0] + 1) * (index[2] + 1) * unit / self.tokens)
        grids.total[index], grids.exact[index] = total, True
        for fill, values in zip(grids.fills, fills, strict=True):
            fill[index] = values
        return True

    def _joined(self, tables: dict[int, tuple[Floats, Floats]], share: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
        """Combine the clocks' seconds and messages: seconds on the slowest station, and on all others by direction."""
        ways: tuple[list[tuple[int, Floats]], list[tuple[int, Floats]]] = ([], [])
        for (clock, *around), count in self.kinds.items():
            for way, seconds in enumerate(tables[clock]):
                came, gone = around[2 * way : 2 * way + 2]
                if self.overlap:  # a message is one more station on the way
                    ways[way].append((count, seconds))
                    ways[way].append((count, np.zeros_like(seconds) + gone.send_s(share) + gone.gather_s(share)))
                else:
                    ways[way].append((count, seconds + came.gather_s(share) + gone.send_s(share)))
        most: list[Floats] = [np.maximum.reduce([x for _, x in way]) for way in ways]
        sums: list[Floats] = [np.sum([n * _finite(x) for n, x in way], axis=0) for way in ways]
        fills = [
            np.where(np.isfinite(m), np.maximum(x - _finite(m), 0.0), np.inf) for m, x in zip(most, sums, strict=True)
        ]
        return most[0] + most[1], (fills[0], fills[1])

    def slice_seconds(self, stage: int, piece: Slice) -> list[tuple[float, float]]:
        """Exact forward and backward seconds of a piece's token slices on a stage, without messages.

        Lengths are in tokens, not in units.
        """
        found: list[tuple[float, float]] = []
        context = 0
        clock = self.clocks[stage]
        for length in piece.tokens:
            key = (id(clock), piece.samples, length, context)
            if key not in self._exact:
                self._exact[key] = clock.seconds(piece.samples, length, context)
            found.append(self._exact[key])
            context += length
        return found

    def seconds(self, slices: Sequence[Slice]) -> tuple[float, float]:
        """Forward and backward seconds of the pipeline, which feeds all slices forward and then all backward.

        A slice can begin on a stage when it has left the stage before and the slice before it is done. The rule is
        followed stage by stage, and is exact if messages do not share links. With equal stages it gives
        Σ t + (K − 1) max t.
        """
        pieces = list(slices)
        share = np.array([x.samples * i / self.tokens for x in pieces for i in x.tokens])
        known: dict[int, tuple[Floats, Floats]] = {}
        for s, clock in enumerate(self.clocks):
            if id(clock) not in known:
                each = [pair for x in pieces for pair in self.slice_seconds(s, x)]
                known[id(clock)] = (np.array([p[0] for p in each]), np.array([p[1] for p in each])[::-1])
        stages = range(len(self.cells))
        ends: list[float] = []
        for way, order in ((0, stages), (1, stages[::-1])):
            done: Floats = np.zeros(len(share))
            along = share if way == 0 else share[::-1]
            for s in order:
                around = self._around(s)
                came, gone = around[2 * way], around[2 * way + 1]
                took = known[id(self.clocks[s])][way]
                if self.overlap:
                    done = _through(done, took)
                    if gone != Message():
                        done = _through(done, gone.send_s(along)) + gone.gather_s(along)
                else:
                    done = _through(done, took + came.gather_s(along) + gone.send_s(along))
            ends.append(float(done[-1]))
        return ends[0], ends[1]

    def _around(self, s: int) -> tuple[Message, Message, Message, Message]:
        """Messages of a stage: forward in and out, backward in and out."""
        last, nothing = len(self.cells) - 1, Message()
        return (
            self.forward[s - 1] if s else nothing,
            self.forward[s] if s < last else nothing,
            self.backward[s] if s < last else nothing,
            self.backward[s - 1] if s else nothing,
        )

    def _every(self, clock: Clock, samples: Sequence[int], unit: int) -> tuple[Floats, Floats]:
        n = self.tokens // unit
        tables = np.full((2, max(samples), n, n), np.inf)
        for b in samples:
            tables[:, b - 1] = 0.0
            for j in range(n):
                for i in range(1, n - j + 1):
                    tables[:, b - 1, j, i - 1] = clock.seconds(b, i * unit, j * unit)
        return tables[0], tables[1]


def _through(ready: Floats, took: Floats) -> Floats:
    """When a station that takes slices one by one is done with each, given when each is ready."""
    sums = np.cumsum(took)
    return sums + np.maximum.accumulate(ready - (sums - took))


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, 0.0)
