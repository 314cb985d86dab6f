"""Greedy choice of the models on each group of a cut cluster (AlpaServe §4.1, its fast form)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...simulator.cluster import Cluster
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.llm.plan.result import LLMPlanResult
from ...simulator.llm.plan.simulate import simulate_plan
from ...simulator.plan.entries import PlannerEntry
from .costs import CostSource, KnownCosts
from .demand import LLMDemand
from .groups import Load, Partition, deployments
from .planner import workload_of
from .scoring import served
from .space import SearchSpace

__all__ = ["GreedySelection", "Held", "SharedScore"]

Held = tuple[frozenset[int], ...]
"""For each group the numbers of its models."""


@dataclass(frozen=True, slots=True)
class SharedScore:
    """What a cut of the cluster reaches.

    Parameters
    ----------
    good : float
        Share of all requests that are good.
    kept : float
        Share of the limits that is left for 9 of 10 requests of the model with least.
    held : tuple of frozenset of int
        For each group the numbers of its models; empty where they do not fit.
    """

    good: float
    kept: float
    held: Held


class GreedySelection:
    """Chooses models for cuts of a cluster, and counts the simulations that it takes."""

    def __init__(
        self,
        cluster: Cluster,
        demands: tuple[LLMDemand, ...],
        costs: CostSource,
        space: SearchSpace,
        seed: int,
    ) -> None:
        self.cluster, self.demands, self.space, self.seed = cluster, demands, space, seed
        self.costs = KnownCosts(costs)
        self.traces = {d.name: d.traffic.trace(seed) for d in demands}
        self.loads = [Load.of(d, (seed,)) for d in demands]
        self.simulations = 0

    def plan(self, cut: Partition, held: Held) -> LLMPlan | None:
        """The plan of models on groups; None where they do not fit."""
        made = deployments(cut, held, self.demands, self.loads, self.cluster, self.space)
        if made is None:
            return None
        return LLMPlan.of(
            self.cluster, tuple(map(served, self.demands)), made, router="least_outstanding",
            planner=PlannerEntry(name="vllm-shared"), workload=workload_of(self.demands, self.traces),
        )  # fmt: skip

    def simulate(self, made: LLMPlan, requests: int) -> LLMPlanResult:
        """The first requests of each model."""
        self.simulations += 1
        on = {d.model for d in made.deployments}
        asked = {
            name: t if requests >= len(t) else t.select(slice(0, requests))
            for name, t in self.traces.items()
            if name in on
        }
        return simulate_plan(made, asked, costs=lambda d: self.costs.of(made, d), seed=self.seed, engine="fast")

    def score(self, made: LLMPlan, requests: int) -> SharedScore:
        """What a plan reaches; models without a replica lose all their requests."""
        return self.scored(self.simulate(made, requests), requests)

    def scored(self, result: LLMPlanResult, requests: int) -> SharedScore:
        """What a simulation on the first requests says."""
        total = sum(min(requests, len(t)) for t in self.traces.values())
        kept = min(_kept(result, name) for name in result.results)
        return SharedScore(sum(result.good(m) for m in result.results) / total, kept, ())

    def select(self, cut: Partition, requests: int) -> SharedScore:
        """Greedy selection on the first requests."""
        held = self._first(cut)
        if held is None:
            return SharedScore(-1.0, -math.inf, ())
        made = self.plan(cut, held)
        assert made is not None
        result = self.simulate(made, requests)
        best = self.scored(result, requests)
        full = set[int]()  # models for which another replica did not help
        while best.good < 1 and len(full) < len(self.demands):
            lost = {
                m: len(result.results[d.name]) - result.good(d.name)
                for m, d in enumerate(self.demands)
                if m not in full
            }
            model = max(lost, key=lambda m: (lost[m], -m))
            if not lost[model]:
                break
            wider = self._another(cut, held, model)
            candidate = None if wider is None else self.plan(cut, wider)
            if wider is None or candidate is None:
                full.add(model)
                continue
            tried = self.simulate(candidate, requests)
            score = self.scored(tried, requests)
            if score.good <= best.good:
                full.add(model)
            else:
                held, result, best = wider, tried, score
                full.clear()
        return SharedScore(best.good, best.kept, held)

    def _first(self, cut: Partition) -> Held | None:
        """Every model once, heaviest first, on the group with least to do that has memory; None if one has no place."""
        held: Held = (frozenset[int](),) * len(cut.groups)
        for model in sorted(range(len(self.demands)), key=lambda m: (-self._work(m, 1), m)):
            wider = self._another(cut, held, model)
            if wider is None:
                return None
            held = wider
        return held

    def _another(self, cut: Partition, held: Held, model: int) -> Held | None:
        """One more replica of a model, on the group with least to do; None where no group has room."""
        where = [g for g in range(len(cut.groups)) if model not in held[g]]
        for g in sorted(where, key=lambda g: (self._busy(cut, held, g), g)):
            wider = (*held[:g], held[g] | {model}, *held[g + 1 :])
            if deployments(cut, wider, self.demands, self.loads, self.cluster, self.space) is not None:
                return wider
        return None

    def _busy(self, cut: Partition, held: Held, g: int) -> float:
        """What a group has to do, per device."""
        replicas = {m: sum(m in h for h in held) for m in held[g]}
        return sum(self._work(m, n) for m, n in replicas.items()) / len(cut.groups[g].devices)

    def _work(self, model: int, replicas: int) -> float:
        """Weights read per second, in proportion: what decoding one token after the other costs."""
        demand, trace = self.demands[model], self.traces[self.demands[model].name]
        rate = demand.traffic.per_second
        tokens = (rate if math.isfinite(rate) else 1.0) * float(trace.output_tokens.mean())
        return tokens * demand.model.weights / replicas


def _kept(result: LLMPlanResult, name: str) -> float:
    ttft, tpot = result.limits(name)
    one = result.results[name]
    used = max(one.ttft(90) / ttft, one.tpot(90) / tpot if math.isfinite(one.tpot(90)) else 0.0)
    return 1 - used if math.isfinite(used) else -math.inf
