"""`CostSource`: where the seconds of an engine's iteration come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...profiles.llm.cost.overheads import Overheads
from ...profiles.llm.iteration import IterationCost
from ...profiles.llm.tables.kernels import KernelTables
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.costs import deployment_cost
from ...simulator.llm.plan.entries import Deployment
from ...simulator.llm.plan.file import LLMPlan

__all__ = ["CostSource", "KnownCosts"]


@dataclass(frozen=True, slots=True, repr=False)
class CostSource(Shown):
    """What iterations cost.

    Parameters
    ----------
    tables : KernelTables, optional
        Measured kernels of the device; without them its roofline gives the times.
    overheads : Overheads, optional
        Host times of an iteration.
    costs : callable, optional
        Deployment -> its cost, instead of both; must be picklable where several processes work.
    """

    tables: KernelTables | None = None
    overheads: Overheads | None = None
    costs: Callable[[Deployment], IterationCost] | None = None

    def of(self, plan: LLMPlan, deployment: Deployment) -> IterationCost:
        """The cost of one of a plan's engines."""
        if self.costs is not None:
            return self.costs(deployment)
        return deployment_cost(plan, deployment, self.tables, self.overheads)

    def text(self, cluster: Cluster) -> str:
        """Where the costs come from, as plans say it."""
        if self.costs is not None:
            return "given by the caller"
        if self.tables is not None:
            return self.tables.source
        return f"roofline of {cluster.spec.name}, nothing measured: {cluster.spec.source}"


class KnownCosts:
    """Costs of a source, each made once: a search meets the same model and parallelism thousands of times."""

    def __init__(self, source: CostSource) -> None:
        self.source = source
        self._made: dict[tuple[Any, ...], IterationCost] = {}

    def of(self, plan: LLMPlan, deployment: Deployment) -> IterationCost:
        """The cost of one of a plan's engines."""
        if self.source.costs is not None:  # the caller's may look at more of a deployment than the key says
            return self.source.costs(deployment)
        d = deployment
        key = d.model, d.tp, d.pp, d.cp, d.dp, d.ep, d.precision, d.kv_precision
        if key not in self._made:
            self._made[key] = self.source.of(plan, deployment)
        return self._made[key]
