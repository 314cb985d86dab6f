"""`Chain`: the least cost of every run of segments, by min-plus products of their tables, and the choices behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ...solver.problem import Floats
from ..pricing import Pricing
from ..stage_model import build_stage
from ..strategies import Ints
from .chain_step import ChainStep, Variable, entered_costs, states_of, widened
from .eliminate import MOST_ENTRIES, TooWideError
from .segment_table import Prices, SegmentTable, segment_table
from .segments import Segments

__all__ = ["Chain"]

MOST_STATES = 100_000
"""Most combinations of specs with which a cut may be crossed. Tables grow with it; with more, each run is solved by an
ILP instead (`intervals`). The number is a guess."""


class Chain:
    """All runs of segments that begin and end with layers, for several prices of memory.

    Parameters
    ----------
    pricing : Pricing
        Costs on the mesh.
    segments : Segments
        The segments that runs are made of.
    prices : sequence of (float, float)
        Seconds per byte of state and of activations of one microbatch.

    Raises
    ------
    TooWideError
        If a cut is crossed in too many ways.
    """

    def __init__(self, pricing: Pricing, segments: Segments, prices: Prices) -> None:
        self.pricing, self.segments, self.prices = pricing, segments, tuple(prices)
        self.layers = len(segments.layers)
        self.begins = [segments.at(a) for a, _ in segments.layers]
        self.cost = np.full((self.layers, self.layers, len(self.prices)), np.inf)
        self.last: dict[int, Floats] = {}
        self._tables: dict[int, SegmentTable] = {}
        self.steps: list[ChainStep] = []
        alive = [self._single(name) for name, (first, _) in segments.long.items() if first < 0]
        total = np.full((len(self.prices), self.layers, *(v.size for v in alive)), np.inf)
        for s, segment in enumerate(segments.segments):
            step = self._step(s, alive)
            total = self._multiply(step, s, total)
            self.steps.append(step)
            alive = step.after
            if segment.ends >= 0:
                flat = total.reshape(*total.shape[:2], -1)
                self.last[segment.ends] = total
                self.cost[: segment.ends + 1, segment.ends] = flat.min(axis=2).T[: segment.ends + 1]

    def _single(self, name: str) -> Variable:
        if name in self.pricing.analysis.parameters:
            return Variable((name,), len(self.pricing.storage(name).weight))
        return Variable((name,), len(self.pricing.specs(name).specs))

    def _step(self, s: int, alive: list[Variable]) -> ChainStep:
        segments, pricing = self.segments, self.pricing
        segment = segments.segments[s]
        if segment.kind not in self._tables:
            self._tables[segment.kind] = segment_table(pricing, segment, self.prices)
        table = self._tables[segment.kind]
        known = {v.names[0]: v for v in alive if v.leaves is None}
        bundle = next((v for v in alive if v.leaves is not None), None)
        read: list[tuple[Variable, int]] = []
        if bundle is not None:
            read += [(bundle, bundle.names.index(name)) for name in segment.reads]
        fresh: list[Variable] = []  # parameters that are read here first
        for name in segment.long_reads:
            if name not in known:
                known[name] = self._single(name)
                fresh.append(known[name])
            read.append((known[name], 0))
        touched = list({id(v): v for v, _ in read}.values())
        ended = [v for v in touched if v is bundle or segments.long[v.names[0]][1] <= s]
        # A bundle that nothing here reads cannot be: its values are read by the next segment.
        untouched = [v for v in alive if not any(v is x for x in touched)]
        kept = [v for v in touched if not any(v is x for x in ended)]
        made, leaves = self._made(s, table)
        after = [*untouched, *kept, *made]
        if (
            math.prod(v.size for v in after) > MOST_STATES
            or table.table.size // len(table.leaves) * states_of(made) > MOST_ENTRIES
        ):
            raise TooWideError
        wide = widened(table.table, leaves, made)
        inner = entered_costs(wide, read, kept, ended)
        start_full = wide.copy()
        for at, own in enumerate(table.own):
            if self._due(s, at)[s]:
                start_full += own.reshape(len(own), *(-1 if x == at else 1 for x in range(start_full.ndim - 1)))
        counts = {at: self._due(s, at) for at in range(len(read))}
        drop = [at for at, (v, _) in enumerate(read) if any(v is x for x in ended)]
        start = start_full.min(axis=tuple(at + 1 for at in drop)) if drop else start_full
        order = [at for at in range(len(read)) if at not in drop]
        places = [order.index(next(a for a, (v, _) in enumerate(read) if v is x)) for x in kept]
        start = start.transpose(0, *(p + 1 for p in places), *range(1 + len(order), start.ndim))
        start = start.reshape(len(start), states_of(kept), states_of(made))
        ways = np.full(states_of(made), -1)
        ways[np.ravel_multi_index(leaves, [v.size for v in made]) if made else [0]] = np.arange(len(table.leaves))
        return ChainStep(
            *(table, [*alive, *fresh], after, untouched, kept, ended, made, inner, start, start_full, tuple(read)),
            *(counts, len(fresh), ways),
        )

    def _due(self, s: int, at: int) -> list[bool]:
        segment = self.segments.segments[s]
        return self.segments.counts((*segment.reads, *segment.long_reads)[at], s)

    def _made(self, s: int, table: SegmentTable) -> tuple[list[Variable], list[Ints]]:
        """Variables that a segment makes, and the state of each for each way of leaving it."""
        segment = self.segments.segments[s]
        made: list[Variable] = []
        states: list[Ints] = []
        n = len(segment.makes)
        if n:
            bundle, codes = np.unique(table.leaves[:, :n], axis=0, return_inverse=True)
            made.append(Variable(segment.makes, len(bundle), bundle))
            states.append(codes.reshape(-1))
        for at, name in enumerate(segment.long_makes):
            made.append(self._single(name))
            states.append(table.leaves[:, n + at])
        return made, states

    def _multiply(self, step: ChainStep, s: int, total: Floats) -> Floats:
        segment = self.segments.segments[s]
        p, runs = len(self.prices), self.layers
        shape = [v.size for v in step.before]
        total = np.broadcast_to(total.reshape(*total.shape, *([1] * step.fresh)), (p, runs, *shape)).copy()
        order = [*step.untouched, *step.kept, *step.ended]
        places = [next(i for i, x in enumerate(step.before) if x is v) for v in order]
        entered = total.transpose(0, 1, *(x + 2 for x in places))
        begun = [k for k, b in enumerate(self.begins) if b < s]
        for at, (variable, part) in enumerate(step.read):
            due = [k for k in begun if step.counts[at][self.begins[k]]]
            if due:
                own = step.table.own[at]
                if variable.leaves is not None:
                    own = own[:, variable.leaves[:, part]]
                axis = next(i for i, x in enumerate(order) if x is variable)
                view = [1] * (len(order) + 2)
                view[0], view[axis + 2] = p, own.shape[1]
                entered[:, due] += own.reshape(view)
        q, k, x, y = (states_of(v) for v in (step.untouched, step.kept, step.ended, step.made))
        step.entered = np.ascontiguousarray(entered).reshape(p, runs, q, k, x)
        result = np.full((p, runs, q, k, y), np.inf)
        if begun:
            upto = begun[-1] + 1
            part = result[:, :upto]
            for at in range(x):
                np.minimum(part, step.entered[:, :upto, :, :, at, None] + step.inner[:, None, None, :, at, :], out=part)
        if segment.starts >= 0:
            result[:, segment.starts] = step.start[:, None]
        return result.reshape(p, runs, *(v.size for v in step.after))

    # -- choices ------------------------------------------------------------------------------------------------------

    def runs(self, j: int) -> Iterator[tuple[int, Ints, Ints, list[Ints], Ints]]:
        """Walk back from the end of layer j along the best choices of all runs that end there.

        Yields
        ------
        segment : int
            From the last one back.
        prices, firsts : ndarray of int
            The runs that go through it: number of the price, first layer.
        enters : list of ndarray of int
            Strategy of each input of the segment's table, per run.
        leaves : ndarray of int
            Way of leaving the segment, per run.
        """
        total = self.last[j]
        firsts, prices = (a.ravel() for a in np.meshgrid(np.arange(j + 1), np.arange(len(self.prices)), indexing="ij"))
        flat = total[prices, firsts].reshape(len(prices), -1)
        begins = np.array(self.begins)
        end = self.segments.at(self.segments.layers[j][1] - 1)
        state = np.argmin(flat, axis=1)
        alive = np.isfinite(flat.min(axis=1))
        prices, firsts, state = prices[alive], firsts[alive], state[alive]
        for s in range(end, -1, -1):
            step = self.steps[s]
            q, k, x, y = (states_of(v) for v in (step.untouched, step.kept, step.ended, step.made))
            at_q, at_k, at_y = np.unravel_index(state, (q, k, y))
            here = begins[firsts] == s
            enters = [np.zeros(len(prices), np.intp) for _ in step.read]
            if here.any():
                self._started(step, prices, at_k, at_y, here, enters)
            inner = np.nonzero(~here)[0]
            if len(inner):
                p, f, a, b, c = prices[inner], firsts[inner], at_q[inner], at_k[inner], at_y[inner]
                assert step.entered is not None
                at_x = np.argmin(step.entered[p, f, a, b] + step.inner[p, b, :, c], axis=1)
                self._entered(step, a, b, at_x, inner, enters)
                order = [*step.untouched, *step.kept, *step.ended]
                each = np.unravel_index(np.ravel_multi_index((a, b, at_x), (q, k, x)), [v.size for v in order] or [1])
                old = step.before[: len(step.before) - step.fresh]
                back = [each[next(i for i, w in enumerate(order) if w is v)] for v in old]
                before = np.ravel_multi_index(back, [v.size for v in old]) if old else np.zeros(len(inner), np.intp)
            else:
                before = np.zeros(0, np.intp)
            yield s, prices, firsts, enters, self._way_out(step, at_y)
            prices, firsts, state = prices[inner], firsts[inner], before
            if not len(prices):
                return

    def choice(self, i: int, j: int, price: int, names: Sequence[str]) -> dict[str, int]:
        """The best strategy of each node of layers i … j, by name, and of what enters them."""
        chosen: dict[str, int] = {}
        edges = self.segments.edges
        for s, prices, firsts, enters, leaves in self.runs(j):
            at = np.nonzero((prices == price) & (firsts == i))[0]
            if not len(at):
                continue
            table = self.steps[s].table
            choice = table.choice(price, [int(e[at[0]]) for e in enters], int(leaves[at[0]]))
            for v, name in enumerate(build_stage(self.pricing, edges[s], edges[s + 1]).names):
                # What a segment before this one makes has a strategy there, which takes the place of its spec here.
                if v not in table.inputs or name not in chosen:
                    chosen[name] = choice[v]
        return {name: chosen[name] for name in names}

    def _started(
        self, step: ChainStep, prices: Ints, at_k: Ints, at_y: Ints, here: npt.NDArray[np.bool_], enters: list[Ints]
    ) -> None:
        """Strategies of the inputs where runs start: what is kept is given, the rest is the best."""
        kept = np.unravel_index(at_k, [v.size for v in step.kept]) if step.kept else ()
        for e in np.nonzero(here)[0]:
            full = step.start_full[prices[e], ..., at_y[e]]
            at: list[int | slice] = [slice(None)] * len(step.read)
            for n, variable in enumerate(step.kept):
                at[next(i for i, (v, _) in enumerate(step.read) if v is variable)] = int(kept[n][e])
            costs = full[tuple(at)]
            free = iter(np.unravel_index(int(np.argmin(costs)), costs.shape) if costs.ndim else ())
            for i, which in enumerate(at):
                enters[i][e] = int(next(free)) if isinstance(which, slice) else which

    def _entered(self, step: ChainStep, at_q: Ints, at_k: Ints, at_x: Ints, inner: Ints, enters: list[Ints]) -> None:
        """Strategies of the inputs within runs, from the states of the variables."""
        kept = np.unravel_index(at_k, [v.size for v in step.kept]) if step.kept else ()
        ended = np.unravel_index(at_x, [v.size for v in step.ended]) if step.ended else ()
        states = {id(v): a for v, a in zip((*step.kept, *step.ended), (*kept, *ended), strict=True)}
        for i, (variable, part) in enumerate(step.read):
            mine = states[id(variable)]
            enters[i][inner] = mine if variable.leaves is None else variable.leaves[mine, part]

    def _way_out(self, step: ChainStep, at_y: Ints) -> Ints:
        """Ways of leaving a segment's table, from the states of what it made."""
        return step.ways[at_y]
