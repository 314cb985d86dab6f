"""`Search`: try numbers of microbatches, pruned by lower bounds (§7 of the paper leaves the choice to the user)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ....errors import InfeasibleError
from ....profiles.graph import Graph
from ....simulator.cluster import Cluster
from .choose import Choice, choose_stages
from .clustering import Layer
from .crossing import received_bytes
from .infeasible import least_memory
from .pricing.pricer import Pricer, Pricing, Recompute, price_stages
from .pricing.table import StageTable
from .shapes import submesh_shapes

if TYPE_CHECKING:
    from ..options import AlpaOptions

__all__ = ["Found", "Search"]

UNLIMITED = 2.0**60
"""Bytes that are as good as no limit (10^18), and small enough that products with them stay finite."""


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """The best of what was searched: the graph at this microbatch's size, the table, and the stages chosen from it."""

    graph: Graph
    microbatches: int
    table: StageTable
    choice: Choice


@dataclass(eq=False, slots=True)
class Search:
    """One planning problem; see `planners.alpa.plan` for what its fields are."""

    graph: Graph
    cluster: Cluster
    global_batch: int
    layers: tuple[Layer, ...]
    options: AlpaOptions
    pricer: Pricer
    memory_bytes: float
    progress: Callable[[str], None] | None = None
    evaluations: int = 0
    tables: dict[int, StageTable] = field(default_factory=dict[int, StageTable])
    graphs: dict[int, Graph] = field(default_factory=dict[int, Graph])

    def best(self, counts: Sequence[int]) -> Found | None:
        """The plan with the least seconds over these numbers of microbatches; None if none fits.

        Numbers are tried in ascending order of a lower bound of their seconds. A number whose bound is no better than
        the best plan so far is not tried.
        """
        bounds = {count: self.pricer.least_seconds(self._graph(count)) * count / self.cluster.n_devices
                  for count in counts} if len(counts) > 1 else dict.fromkeys(counts, 0.0)  # fmt: skip
        best: Found | None = None
        # Of equal bounds the fewer microbatches: their kernels are larger.
        for count in sorted(counts, key=lambda c: (bounds[c], c)):
            if best is not None and bounds[count] >= best.choice.seconds:
                break
            found = self._at(count)
            if found is not None and (best is None or found.choice.seconds < best.choice.seconds):
                best = found
        return best

    def counting_transfers(self) -> Search:
        """The same search with transfers between stages counted: what was priced is not priced again."""
        options = replace(self.options, cross_stage=True)
        return replace(self, options=options, tables=dict(self.tables), graphs=self.graphs)

    def best_priced(self) -> Found | None:
        """The best over the numbers of microbatches that are priced already."""
        found = [x for count in self.tables if (x := self._chosen(count, self.tables[count])) is not None]
        # Of equal plans the one with fewer microbatches, as in `best`.
        return min(found, key=lambda x: (x.choice.seconds, x.microbatches), default=None)

    def without(self, found: Found) -> Found | None:
        """The best with this number of microbatches when none of the stages of `found` may be used as they were."""
        seconds = found.table.seconds
        for stage in found.choice.stages:
            c = found.table.configs[stage.submesh].index(stage.config)
            seconds[stage.first, stage.last - 1, stage.submesh, c] = np.inf
        return self._chosen(found.microbatches, found.table)

    def what_would(self, counts: Sequence[int]) -> tuple[float | None, list[int], list[str]]:
        """What would make a plan where none was found: (bytes on one device, counts that were tried, other hints)."""

        def fits(count: int, table: StageTable) -> Callable[[float], bool]:
            return lambda memory: self._choice(count, table, memory) is not None

        needs = {count: least_memory(fits(count, table), self.memory_bytes) for count, table in self.tables.items()}
        known = [x for x in needs.values() if x is not None]
        needed = min(known, default=None)
        hints: list[str] = []
        if needed is not None and self.options.recompute == "none":
            count = next(c for c, x in needs.items() if x == needed)
            table = self._table(count, ("full",))
            if self._choice(count, table, self.memory_bytes) is not None:
                hints.append("recompute='full'")
        if needed is None:
            hints += self._lacking(counts)
        return needed, list(counts), hints

    def _lacking(self, counts: Sequence[int]) -> list[str]:
        table = next(iter(self.tables.values()), None)
        if table is None:
            return []
        try:
            choose_stages(table, self.cluster, counts[0], UNLIMITED, self.options, self._received(counts[0]))
        except InfeasibleError as error:
            return [str(error)]
        return []

    def _at(self, count: int) -> Found | None:
        if self.progress is not None:
            self.progress(f"{count} microbatches of {self.global_batch // count}")
        if self.options.recompute != "auto":
            self.tables[count] = self._table(count, (self.options.recompute,))
            if self.progress is not None:
                self.progress("choosing stages")
            return self._chosen(count, self.tables[count])
        plain = self._table(count, ("none",))
        found = self._chosen(count, plain)
        free = self._choice(count, plain, UNLIMITED)
        if found is None or free is None or free.seconds < found.choice.seconds:
            plain = plain.with_more(self._table(count, ("selective", "full")))
            found = self._chosen(count, plain)
        # Otherwise memory takes nothing away from the best plan, and computing again only takes time.
        self.tables[count] = plain
        return found

    def _chosen(self, count: int, table: StageTable) -> Found | None:
        choice = self._choice(count, table, self.memory_bytes)
        return None if choice is None else Found(self._graph(count), count, table, choice)

    def _choice(self, count: int, table: StageTable, memory_bytes: float) -> Choice | None:
        try:
            return choose_stages(table, self.cluster, count, memory_bytes, self.options, self._received(count))
        except InfeasibleError:
            return None

    def _table(self, count: int, recompute: tuple[Recompute, ...]) -> StageTable:
        shapes = submesh_shapes(self.cluster, self.options.submeshes)
        if self.options.stages == "one":
            shapes = shapes[-1:]
        elif self.options.stages == "one_device":
            shapes = tuple(s for s in shapes if s == (1, 1))
            if not shapes:  # Theorem 1 cuts hosts of a power of two only
                raise InfeasibleError(
                    f"alpa: a node of {self.cluster.devices_per_node} devices is not cut into stages of one device; "
                    "take nodes of a power of two, or another planner"
                )
        table = price_stages(
            self._graph(count), self.layers, self.cluster, shapes, self.pricer,
            microbatches=count, recompute=recompute, progress=self.progress,
            how=Pricing(self.options.logical, not self.options.force_batch, self.options.workers),
        )  # fmt: skip
        self.evaluations += int(np.isfinite(table.seconds).sum())
        return table

    def _received(self, count: int) -> npt.NDArray[np.float64] | None:
        """Bytes that every run of layers receives and returns; None if transfers do not count."""
        if self.options.cross_stage is not True:
            return None
        of_operators = received_bytes(self._graph(count), gradients=True)
        firsts, lasts = [first for first, _ in self.layers], [last - 1 for _, last in self.layers]
        return of_operators[np.ix_(firsts, lasts)]

    def _graph(self, count: int) -> Graph:
        if count not in self.graphs:
            self.graphs[count] = self.graph.with_batch(self.global_batch // count)
        return self.graphs[count]
