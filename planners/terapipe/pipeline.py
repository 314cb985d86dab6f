"""`Pipeline`: what every stage of a layout takes for slices, as grids for the search and exactly for given slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...profiles.graph import Graph
from ...simulator.training.resharding import Method, reshard_across
from ..alpa.inter.crossing import values_between
from .cells import Cell
from .latency import SliceLatency
from .layouts import Layout
from .slicing import Slice

__all__ = ["Clock", "Grids", "Message", "Pipeline", "messages"]

Floats = npt.NDArray[np.float64]


class Clock(Protocol):
    """Where seconds of slices come from: a cell's costs, or measurements."""

    def seconds(self, samples: int, length: int, context: int = 0) -> tuple[float, float]:
        """Forward and backward seconds of one slice."""
        ...

    def latencies(self, samples: Sequence[int], unit: int) -> tuple[SliceLatency, SliceLatency]:
        """Forward and backward by Eq. 2.9."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """What handing a slice on takes: seconds that the sender is kept, and that the receiver gathers.

    Both are a fixed part and one that goes with samples x tokens / L.
    """

    fixed_s: float = 0.0
    sample_s: float = 0.0
    gather_fixed_s: float = 0.0
    gather_sample_s: float = 0.0

    def send_s(self, share: Floats) -> Floats:
        """Seconds for this many samples' worth of tokens."""
        return self.fixed_s + self.sample_s * share

    def gather_s(self, share: Floats) -> Floats:
        """Likewise of the receiver."""
        return self.gather_fixed_s + self.gather_sample_s * share


@dataclass(frozen=True, eq=False)
class Grids:
    """What `slice_pipeline` takes, and how well Eq. 2.9 meets the costs that it was fitted to.

    Parameters
    ----------
    total : ndarray, shape (b, n, n)
        Seconds on the slowest stage, both ways.
    fills : (ndarray, ndarray)
        Seconds on all others, forward and backward.
    overhead_error, error : float
        Largest of all cells and directions, as `SliceLatency` has them.
    """

    total: Floats
    fills: tuple[Floats, Floats]
    overhead_error: float
    error: float


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The stages of a layout.

    Parameters
    ----------
    layout : Layout
        Degrees and meshes.
    cells : tuple of Cell
        Of each stage: its plan, memory.
    clocks : tuple of Clock
        Of each stage: its seconds; by default its cell.
    forward, backward : tuple of Message
        From stage s to s + 1, and back.
    tokens : int
        L.
    overlap : bool
        Whether messages go beside computation.
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
        """Stages that are alike: (clock, messages in and out, both ways) -> how many."""
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
        machines: list[tuple[int, Floats, Floats]] = []
        for (clock, *around), count in self.kinds.items():
            came, gone, back_in, back_out = around
            forward, backward = tables[clock]
            if self.overlap:  # a message is one more station on the way
                machines.append((count, forward, backward))
                nothing = np.zeros_like(forward)
                machines.append((count, nothing + gone.send_s(share) + gone.gather_s(share), nothing))
                machines.append((count, nothing, nothing + back_out.send_s(share) + back_out.gather_s(share)))
                continue
            machines.append(
                (
                    count,
                    forward + came.gather_s(share) + gone.send_s(share),
                    backward + back_in.gather_s(share) + back_out.send_s(share),
                )
            )
        counts = [m[0] for m in machines]
        ways = [[m[1] for m in machines], [m[2] for m in machines]]
        most: list[Floats] = [np.maximum.reduce(way) for way in ways]
        sums: list[Floats] = [
            np.sum([n * _finite(m) for n, m in zip(counts, way, strict=True)], axis=0) for way in ways
        ]
        fills = [
            np.where(np.isfinite(m), np.maximum(s - _finite(m), 0.0), np.inf) for m, s in zip(most, sums, strict=True)
        ]
        return Grids(
            most[0] + most[1],
            (fills[0], fills[1]),
            max((e[0] for e in errors), default=float("nan")),
            max((e[1] for e in errors), default=float("nan")),
        )

    def slice_seconds(self, stage: int, piece: Slice) -> list[tuple[float, float]]:
        """Forward and backward seconds of the token slices of a piece, exactly; tokens, not units; no messages."""
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
        """Forward and backward seconds of a pipeline that feeds all slices forward, then all backward, to the last.

        A slice leaves a stage when it is done there and at the stage before: by this rule stage after stage, exactly,
        if messages do not share links. With equal stages it is Σ t + (K − 1) max t.
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


def messages(
    graph: Graph, layout: Layout, cells: Sequence[Cell], method: Method
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What handing on a slice takes between neighbours, forward and backward.

    Parameters
    ----------
    graph : Graph
        With one sample on each replica.
    """
    between: dict[tuple[int, int], list[str]] = {}
    for source, target, value in values_between(graph, layout.bounds):
        between.setdefault((source, target), []).append(value)
    known: dict[object, tuple[Message, Message]] = {}
    pairs: list[tuple[Message, Message]] = []
    for s in range(layout.pipe - 1):
        one, two = layout.meshes[s], layout.meshes[s + 1]
        carried = tuple(
            (float(graph.bytes_of(value)), *_specs(graph, layout, cells, s, value))
            for value in between.get((s, s + 1), [])
        )
        key = (two.first_host - one.first_host, one.first_device, two.first_device, carried)
        if key not in known:
            known[key] = _message(layout, s, s + 1, carried, method), _message(layout, s + 1, s, carried, method)
        pairs.append(known[key])
    return tuple(x for x, _ in pairs), tuple(x for _, x in pairs)


def _specs(graph: Graph, layout: Layout, cells: Sequence[Cell], s: int, value: str) -> tuple[str, str]:
    """How a value lies on stage s, which makes it, and on the next one. Cells stand for all stages that are alike."""

    def there(stage: int) -> str:
        at = graph.index[value] - layout.bounds[stage][0] + cells[stage].plan.first
        return graph.operators[at].name

    made = cells[s].plan.operators.get(there(s))
    return made.result if made is not None else "", cells[s + 1].plan.inputs.get(there(s + 1), "")


def _message(
    layout: Layout, source: int, target: int, carried: Sequence[tuple[float, str, str]], method: Method
) -> Message:
    """A straight line through two sizes, which is what links are."""
    sizes: list[tuple[float, float]] = []
    for share in (0.5, 1.0):
        ways = [
            reshard_across(
                n_bytes * share, layout.views[source], *((have,) if source < target else (need,)),
                layout.views[target], need if source < target else have, method=method,
            )
            for n_bytes, have, need in carried
        ]  # fmt: skip
        sizes.append((sum(x.seconds for x in ways), sum(x.gather_s for x in ways)))
    (half, gather_half), (whole, gather_whole) = sizes
    gather_rate = 2 * (gather_whole - gather_half)
    return Message(2 * half - whole, 2 * (whole - half), gather_whole - gather_rate, gather_rate)


def _through(ready: Floats, took: Floats) -> Floats:
    """When slices that are ready in turn are done by a station that takes them one by one."""
    sums = np.cumsum(took)
    return sums + np.maximum.accumulate(ready - (sums - took))


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, 0.0)
