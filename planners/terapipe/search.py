"""`Search`: find the best slices of each layout within the memory; and if nothing fits, say why."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ...errors import InfeasibleError, InputError, MeshwrightError
from ...profiles.graph import CostModel, Graph
from ...simulator.cluster import Cluster
from ..alpa.inter.pricing.pricer import Recompute
from ..alpa.intra import IntraOptions
from .cell_pricer import CellPricer
from .cells import Cell
from .choose import Chosen, choose_slices
from .emit import Schedule, stage_bytes
from .layouts import Layout, layouts
from .messages import messages
from .options import TeraPipeOptions
from .pipeline import Clock, Pipeline
from .slice_profile import SliceProfile

__all__ = ["COARSE", "Candidate", "Search"]

GIB = 2**30
COARSE_UNITS = 32
COARSE = 0.05
"""With several layouts, slices are first searched on at most 32 units. Layouts within 5 % of the best are then searched
again at the full granularity. Both numbers are guesses; a finer grid gains less than that, since the optimum is
flat."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A layout with its best slices, under one schedule; `samples` are the numbers of samples that may go together."""

    pipeline: Pipeline
    chosen: Chosen
    schedule: Schedule
    recompute: Recompute
    samples: tuple[int, ...]


class Search:
    """The search over slices, with everything that all layouts share."""

    def __init__(
        self, graph: Graph, cluster: Cluster, batch: int, microbatches: int | None, options: TeraPipeOptions,
        costs: CostModel, pricer: CellPricer | None = None,
    ) -> None:  # fmt: skip
        self.graph, self.cluster, self.batch, self.options = graph, cluster, batch, options
        self.microbatches, self.costs = microbatches, costs
        # Gradients of weights are added up over slices: as over several microbatches.
        self.pricer = pricer or CellPricer(graph, costs, IntraOptions(microbatches=2, optimizer=options.optimizer))
        self.profile = None if options.slice_profile is None else SliceProfile.of(options.slice_profile)
        self.source = costs.source if self.profile is None else f"slices: {self.profile.source}; rest: {costs.source}"
        if self.profile is not None:
            self.profile.check(graph)
        self.memory = cluster.spec.memory_bytes * options.memory_fraction
        self.unit = self._unit()
        n = self.pricer.tokens // self.unit
        self.coarse = self.unit * next(d for d in range(1, n + 1) if n % d == 0 and n // d <= COARSE_UNITS)
        if options.tokens is not None:
            self.coarse = self.unit
        self.evaluations = 0
        self.tight: list[tuple[float, Layout]] = []
        self.hopeless: list[tuple[float, Layout]] = []
        self.refused: list[MeshwrightError] = []

    def candidates(self, layout: Layout, unit: int, *, whole: bool = False) -> list[Candidate]:
        """The layout's best slices under each schedule, with the least recomputation that fits; empty if none fits.

        A layout is skipped if its heads cannot be cut over its devices, or no groups of samples make up a replica's
        batch: another layout may do. One whose weights and optimiser states alone do not fit is not searched, unless
        `whole` asks how much it would need.
        """
        try:
            return self._candidates(layout, unit, whole)
        except (InputError, InfeasibleError) as error:
            self.refused.append(error)
            return []

    def _candidates(self, layout: Layout, unit: int, whole: bool) -> list[Candidate]:
        kinds: tuple[Recompute, ...] = ("none", "selective", "full")
        recompute = kinds if self.options.recompute == "auto" else (self.options.recompute,)
        if self.options.recompute == "auto" and self.profile is not None:
            recompute = ("none", "full")  # nothing was measured of parts of blocks
        schedules: tuple[Schedule, ...] = ("terapipe", "terapipe_1f1b")
        wanted = schedules if self.options.schedule == "auto" else (self.options.schedule,)
        pipelines: dict[Recompute, Pipeline] = {recompute[0]: self._pipeline(layout, recompute[0])}
        state = max(cell.plan.state_bytes for cell in pipelines[recompute[0]].cells)
        if state > self.memory and not whole:
            self.hopeless.append((state, layout))
            return []
        found: list[Candidate] = []
        for schedule in wanted:
            for kept in recompute:
                if kept not in pipelines:
                    pipelines[kept] = self._pipeline(layout, kept)
                fitting = self._fitting(pipelines[kept], schedule, kept, unit)
                if fitting is not None:
                    found.append(fitting)
                    break
            if found and found[-1].recompute == recompute[0]:
                break  # accumulation only costs where the whole batch fits as it is
        return found

    def refined(self, candidate: Candidate) -> Candidate:
        """The same layout with slices at the full granularity, if those fit and are faster."""
        chosen = self._slices(candidate.pipeline, candidate.samples, self.unit)
        fits = self._needs(candidate.pipeline, chosen, candidate.schedule) <= self.memory
        return replace(candidate, chosen=chosen) if fits and chosen.seconds < candidate.chosen.seconds else candidate

    def _fitting(self, pipeline: Pipeline, schedule: Schedule, recompute: Recompute, unit: int) -> Candidate | None:
        """The best slices that fit. If they do not fit, fewer samples go together, which keeps fewer activations."""
        batch = self.batch // pipeline.layout.data
        allowed = self._together(batch, pipeline.layout)
        while allowed:
            chosen = self._slices(pipeline, allowed, unit)
            needs = self._needs(pipeline, chosen, schedule)
            if needs <= self.memory:
                return Candidate(pipeline, chosen, schedule, recompute, allowed)
            self.tight.append((needs, pipeline.layout))
            most = max(x.samples for x in chosen.slices)
            allowed = tuple(b for b in allowed if b < most) if self.microbatches is None else ()
            if allowed and batch % min(allowed):
                break
        return None

    def _slices(self, pipeline: Pipeline, samples: tuple[int, ...], unit: int) -> Chosen:
        batch = self.batch // pipeline.layout.data
        equal = self.microbatches is not None
        chosen = choose_slices(pipeline, self.options, batch, samples, unit, equal=equal)
        self.evaluations += chosen.solved
        if self.batch % len(chosen.slices):  # plans have microbatches of a whole number of samples in the mean
            chosen = choose_slices(pipeline, self.options, batch, samples, unit, equal=True)
            self.evaluations += chosen.solved
        return chosen

    def _needs(self, pipeline: Pipeline, chosen: Chosen, schedule: Schedule) -> float:
        return max(sum(x) for x in stage_bytes(pipeline, chosen.slices, schedule))

    def _together(self, batch: int, layout: Layout) -> tuple[int, ...]:
        if self.microbatches is None:
            return self.options.together(batch)
        if batch % self.microbatches:
            raise InputError(
                f"terapipe: microbatches: {self.microbatches} do not divide a replica's batch of {batch} ({layout})"
            )
        return (batch // self.microbatches,)

    def _pipeline(self, layout: Layout, recompute: Recompute) -> Pipeline:
        """The layout's stages. Those between the first and the last are alike and share a cell."""
        graph, last = self.pricer.sized(layout.data), layout.pipe - 1
        alike = {s: self.pricer.cell(*layout.bounds[s], layout.views[s], recompute) for s in {0, min(1, last), last}}
        cells = tuple(alike.get(s, alike[min(1, last)]) for s in range(layout.pipe))
        clocks: tuple[Clock, ...] = cells
        if self.profile is not None:
            blocks = len({op.layer for op in graph.operators if op.layer >= 0})
            clocks = self.profile.clocks(layout, blocks, recompute)
        forward, backward = messages(graph, layout, cells, self.options.resharding)
        return Pipeline(layout, cells, clocks, forward, backward, self.pricer.tokens, self.options.overlap)

    def whole(self, candidate: Candidate) -> tuple[Cell, ...]:
        """The own cell of every stage, with the names of its operators."""
        layout = candidate.pipeline.layout
        return tuple(
            self.pricer.cell(*bounds, view, candidate.recompute)
            for bounds, view in zip(layout.bounds, layout.views, strict=True)
        )

    def _unit(self) -> int:
        tokens, given = self.pricer.tokens, self.options.tokens
        if given is None:
            return self.options.unit(tokens)
        if sum(given) != tokens:
            raise InputError(f"terapipe: tokens: slices sum to {sum(given)}; a sequence has {tokens} tokens")
        return math.gcd(*given, tokens)

    def why(self) -> MeshwrightError:
        """The error that says what would fit; if no layout was possible at all, why the first one was not."""
        if not self.tight and self.hopeless:
            self.candidates(min(self.hopeless, key=lambda x: x[0])[1], self.coarse, whole=True)
        if not self.tight:
            return self.refused[0]
        # The layout that misses the memory by least makes the hint that asks for least.
        needs, layout = min(self.tight, key=lambda x: x[0])
        more = _rounded_up(needs / GIB)
        hints = [f"devices with {more:.4g} GiB for it instead of {self.memory / GIB:.4g} GiB"]
        return InfeasibleError(
            f"terapipe: no plan of {self.graph.name!r} on {self.cluster} with a batch of {self.batch} fits the memory; "
            f"nearest is {layout}. What would: {'; or '.join(hints + self._changes())}"
        )

    def _changes(self) -> list[str]:
        """Changes of the request with which a plan would fit; each has been tried."""
        found: list[str] = []
        tries: list[tuple[str, dict[str, Any], int]] = []
        if self.options.schedule == "terapipe":
            tries.append(
                ("-o schedule=terapipe_1f1b (gradient accumulation)", {"schedule": "terapipe_1f1b"}, self.batch)
            )
        if self.options.recompute not in ("auto", "full") and self.profile is None:
            tries.append(("-o recompute=full", {"recompute": "full"}, self.batch))
        free = {name: None for name in ("data", "pipe", "op") if getattr(self.options, name) is not None}
        if free:
            tries.append((f"other degrees than the given {', '.join(free)}", dict(free), self.batch))
        smaller = [b for b in range(self.batch // 2, 0, -1) if self.batch % b == 0]
        # each try is a search: six keep the wait short
        tries += [(f"a global batch of {b}", {}, b) for b in smaller[:6]]
        for said, changes, batch in tries:
            if found and not changes:
                break  # the largest batch is enough, and only where nothing else helps
            if self._fits(replace(self.options, **changes), batch):
                found.append(said)
        return found or ["more devices"]

    def _fits(self, options: TeraPipeOptions, batch: int) -> bool:
        try:
            other = Search(self.graph, self.cluster, batch, None, options, self.costs, self.pricer)
            return any(
                other.candidates(layout, other.coarse) for layout in layouts(self.graph, self.cluster, options, batch)
            )
        except (InputError, InfeasibleError):
            return False


def _rounded_up(x: float) -> float:
    """Round up to three digits."""
    digits = 2 - math.floor(math.log10(x))
    return math.ceil(x * 10.0**digits) / 10.0**digits
