"""`CostSource`: where the seconds of an engine's iteration come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...profiles.llm.cost.overheads import Overheads
from ...profiles.llm.iteration import IterationCost
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.costs import Tables, deployment_cost
from ...simulator.llm.plan.entries import Deployment
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.mixed import MixedCluster

__all__ = ["CostSource", "KnownCosts"]


@dataclass(frozen=True, slots=True, repr=False)
class CostSource(Shown):
    """What iterations cost.

    Parameters
    ----------
    tables : KernelTables or mapping of str to KernelTables, optional
        Measured kernels of the cluster's device, or by device type; without them rooflines give the times.
    overheads : Overheads, optional
        Host times of an iteration.
    costs : callable, optional
        Deployment -> its cost, instead of both; must be picklable where several processes work.
    """

    tables: Tables | None = None
    overheads: Overheads | None = None
    costs: Callable[[Deployment], IterationCost] | None = None

    def of(self, plan: LLMPlan, deployment: Deployment) -> IterationCost:
        """The cost of one of a plan's engines."""
        if self.costs is not None:
            return self.costs(deployment)
        return deployment_cost(plan, deployment, self.tables, self.overheads)

    def text(self, cluster: Cluster | MixedCluster) -> str:
        """Where the costs come from, as plans say it."""
        if self.costs is not None:
            return "given by the caller"
        said: list[str] = []
        for number, pool in enumerate(MixedCluster.of(cluster).pools):
            name, tables = pool.spec.name, self.tables
            mine = tables.get(name) if isinstance(tables, Mapping) else tables if number == 0 else None
            said.append(f"roofline of {name}, nothing measured: {pool.spec.source}" if mine is None else mine.source)
        return "; ".join(said)


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
        degrees = d.tp, d.pp, d.cp, d.dp, d.ep, d.eplb, d.all2all
        key = plan.device_of(d).name, d.model, *degrees, d.precision, d.kv_precision
        if key not in self._made:
            self._made[key] = self.source.of(plan, deployment)
        return self._made[key]
