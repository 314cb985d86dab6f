"""The serving world (AlpaServe) in studies: a case is planned and then scored by simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import InfeasibleError
from ...planners import ScheduledPlan
from ...simulator.metrics import instability, tail
from ...simulator.plan import Plan
from ..outcome import Outcome
from .serving_case import ServingCase
from .serving_data import ServingData, load_data
from .serving_solve import Solved, solve
from .world import Panel

__all__ = ["WORLD", "ServingWorld", "Solved", "solve"]


def measures(solved: Solved) -> tuple[dict[str, float], tuple[str, ...]]:
    """Metrics of a solved case, and what must be said with them."""
    result, cluster = solved.result, solved.problem.cluster
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
    if solved.lost:
        notes.append(f"lost: group {', '.join(map(str, solved.lost))}")
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
