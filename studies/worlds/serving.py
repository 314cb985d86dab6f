"""The serving world (AlpaServe) in studies: a case is planned and then scored by simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import InfeasibleError
from ...planners import Problem, ScheduledPlan
from ...simulator.metrics import instability, tail
from ...simulator.plan import Plan
from ...simulator.serving import SimulationResult, simulate
from ..outcome import Outcome
from .serving_case import ServingCase
from .serving_data import ServingData, cluster_of, load_data
from .serving_traffic import traffic
from .world import Panel

__all__ = ["WORLD", "ServingWorld", "Solved", "solve"]


class Solved:
    """A case solved in full: what was decided and how every request fared."""

    def __init__(
        self, case: ServingCase, problem: Problem, plan: Plan | ScheduledPlan, result: SimulationResult
    ) -> None:
        self.case, self.problem, self.plan, self.result = case, problem, plan, result


def solve(case: ServingCase, data: ServingData) -> Solved:
    """Plan a case and score the plan.

    Raises
    ------
    InfeasibleError
        If nothing can be planned.
    """
    profiles = data.profiles_for(case)
    cluster = cluster_of(case)
    overhead = profiles.overhead_s if case.serving.overhead is None else case.serving.overhead
    scored = traffic(case, data, profiles, case.seed, "scored")
    planned = scored
    if case.planner.plan_on == "history":
        planned = traffic(case, data, profiles, case.seed, "history")
    problem = Problem(
        cluster, tuple(profiles), planned, profiles, dispatch=case.serving.dispatch, admission=case.serving.admission,
        overhead=overhead, seed=case.seed, options=case.planner.options,
    )  # fmt: skip
    plan = data.planner_of(case)(problem)
    batching = case.serving.max_batch if case.serving.max_batch > 1 else None
    result = simulate(
        plan.placement, scored, profiles, dispatch=case.serving.dispatch, batching=batching,
        admission=case.serving.admission, overhead=overhead,
    )  # fmt: skip
    return Solved(case, problem, plan, result.trim(case.warmup) if case.warmup else result)


def measures(solved: Solved) -> tuple[dict[str, float], tuple[str, ...]]:
    """Metrics of a solved case, and what must be said with them."""
    result, cluster, case = solved.result, solved.problem.cluster, solved.case
    price = cluster.spec.price_per_hour * cluster.n_devices
    p99 = tail(result.latencies, 99.0)
    values = {
        "attainment": result.attainment,
        "goodput": result.goodput,
        "mean_latency": result.mean_latency,
        "p50_latency": result.latency(50.0),
        "p99_latency": p99.value,
        "utilization": float(result.utilization().mean()) * _used(solved) / cluster.n_devices,
        "offered_load": float(result.offered_load().max()),
        "requests": float(len(result.trace)),
        "rejected": float(result.rejected.sum()),
        "devices": float(cluster.n_devices),
        "cost_per_hour": price if price > 0 else math.nan,
        "evaluations": float(solved.plan.planner.evaluations),
    }
    notes = [f"p99_latency refused: {p99.why}"] if p99.why else []
    unstable = instability(result)
    if unstable:
        notes.append(unstable)
    return {name: value for name, value in values.items() if math.isfinite(value)}, tuple(notes)


def _used(solved: Solved) -> float:
    """Devices that the placement uses, on average over its groups' utilisation."""
    return float(solved.result.placement.n_devices)


class ServingWorld:
    """Multi-model serving of one-shot requests: the world of AlpaServe."""

    name = "serving"
    case = ServingCase

    def share(self, cases: Sequence[ServingCase], folder: Path) -> ServingData:
        """Load profiles, traces, plans and planners that the cases name."""
        return load_data(cases, folder)

    def digests(self, case: ServingCase, shared: ServingData) -> Mapping[str, str]:
        """SHA-256 of the profile set, trace, plan and planner file that a case reads."""
        return shared.digests_of(case)

    def evaluate(self, case: ServingCase, shared: ServingData) -> Outcome:
        """Plan and score."""
        try:
            solved = solve(case, shared)
        except InfeasibleError as error:
            return Outcome("infeasible", error=" ".join(str(error).split()))
        metrics, notes = measures(solved)
        return Outcome(metrics=metrics, notes=notes, decision=decision(solved.plan))

    def panels(self, case: ServingCase, shared: ServingData) -> Sequence[Panel]:
        """Placement on the cluster, the worst burst, utilisation."""
        from .serving_panels import panels

        return panels(solve(case, shared))


def decision(plan: Plan | ScheduledPlan) -> str:
    """The placement in one line."""
    if isinstance(plan, ScheduledPlan):
        return f"{len(plan.placement.placements)} windows; first: {one_line(str(plan.placement.placements[0]))}"
    return one_line(str(plan.placement))


def one_line(text: str) -> str:
    """Several lines as one."""
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


WORLD = ServingWorld()
