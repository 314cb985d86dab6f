"""The metrics of a solved serving case, and what must be said with them."""

from __future__ import annotations

import math

import numpy as np

from ...planners import ScheduledPlan
from ...profiles import ModelProfile, ParallelConfig
from ...simulator.metrics import instability, tail
from ...simulator.serving import SimulationResult
from ...simulator.serving.plan.file import Plan
from ...simulator.serving.replay import stage_work
from .solve import Solved

__all__ = ["decision", "demand", "device_utilization", "measures", "used"]


def measures(solved: Solved) -> tuple[dict[str, float], tuple[str, ...]]:
    """Metrics of a solved case by name, finite ones only, and notes.

    attainment, goodput (per second), mean_latency, p50_latency, p99_latency (seconds, of served requests; p99 only from
    10,000 of them on), n_requests and rejected leave out both ends where the case has a warm-up. utilization is of the
    whole cluster from time 0 to the last finish. offered_load is that of the busiest stage of any group, for requests
    that were admitted; demand is the share of the cluster's device-seconds that all requests would take. upper_bound
    is on the attainment of any placement on this cluster and traffic, gap what is missing to it; they are left out
    where the bound does not hold (batching, schedules of placements) or counts other requests (warm-up). evaluations
    are simulations that the planner made. Where times or failures are drawn, attainment, goodput, latencies and
    rejected are means over the draws, and attainment_low and attainment_high the ends of the interval that holds 95 %
    of them; the rest is of the draw with the median attainment. device_hours and mean_devices are there where groups
    are started and drained.
    """
    result, problem, case = solved.result, solved.problem, solved.case
    cluster, counted = problem.cluster, np.ones(len(result), bool) if result.counted is None else result.counted
    p99, spread = tail(result.latencies, 99.0), solved.drawn
    values = {
        "attainment": result.attainment,
        "goodput": result.goodput,
        "mean_latency": result.mean_latency,
        "p50_latency": result.latency(50.0),
        "p99_latency": p99.value,
        "utilization": device_utilization(result, cluster.n_devices),
        "offered_load": float(result.offered_load().max()),
        "demand": demand(solved),
        "n_requests": float(counted.sum()),
        "rejected": float((result.rejected & counted).sum()),
        "n_devices": float(cluster.n_devices),
    }
    if spread is not None:
        drawn = ("attainment", "goodput", "mean_latency", "p50_latency", "rejected")
        values |= {name: spread.mean_of(name) for name in (*drawn, *(() if p99.why else ("p99_latency",)))}
        values["attainment_low"], values["attainment_high"] = spread.low, spread.high
    if result.uses is not None:
        values |= used(result)
    if cluster.spec.price_per_hour > 0 or case.cluster.price_per_hour is not None:
        values["cost_per_hour"] = cluster.spec.price_per_hour * cluster.n_devices
    if not (isinstance(solved.plan, ScheduledPlan) or case.serving.max_batch > 1 or case.warmup):
        values["upper_bound"] = problem.upper_bound(result.trace)
        values["gap"] = values["upper_bound"] - values["attainment"]
    if case.planner.plan is None:
        values["evaluations"] = float(solved.plan.planner.evaluations)
    notes = [f"p99_latency refused: {p99.why}"] if p99.why else []
    unstable = instability(result)
    if unstable:
        notes.append(unstable)
    if values["demand"] >= 1:
        notes.append(f"overloaded: the requests ask for {values['demand']:.2f} of what the devices can do")
    other = _planned_with_others(solved)
    if other:
        notes.append(f"planned with other latencies than the profile holds: {other}")
    if solved.lost:
        notes.append(f"lost: group {', '.join(map(str, solved.lost))}")
    return {name: value for name, value in values.items() if math.isfinite(value)}, tuple(notes)


def used(result: SimulationResult) -> dict[str, float]:
    """What groups that are started and drained used: device-hours until the last event, and devices in the mean."""
    mean = result.device_s / result.horizon if result.horizon > 0 else math.nan
    return {"device_hours": result.device_s / 3600, "mean_devices": mean}


def device_utilization(result: SimulationResult, n_devices: int) -> float:
    """Busy device-seconds over those that the cluster had until the last event.

    A stage of intra-operator degree op keeps op devices busy; idle devices of the cluster count.
    """
    busy = 0.0
    for segment in result.segments:
        op = np.array([group.config.op for group in segment.placement.groups], dtype=np.float64)
        busy += float(op @ stage_work(segment, result).sum(axis=1))
    return busy / (n_devices * result.horizon) if result.horizon > 0 else 0.0


def demand(solved: Solved) -> float:
    """Device-seconds that all requests would take, over those of the cluster while requests arrive.

    Each request is counted where it costs least: among the configurations that hold its model, or, for a model without
    a replica, among those that are profiled; with batching at the cheapest batch size. From 1 on no queue discipline
    serves them all: with admission the rest is rejected, without it latencies grow with the horizon.
    """
    result, cluster = solved.result, solved.problem.cluster
    placed: dict[str, set[ParallelConfig]] = {}
    for segment in result.segments:
        for group in segment.placement.groups:
            for name in group.models:
                placed.setdefault(name, set()).add(group.config)
    total = 0.0
    for name, count in zip(result.trace.models, result.trace.counts().tolist(), strict=True):
        if count:
            profile = solved.problem.profiles[name]
            configs = placed.get(name) or {c for c in profile.configs if c.n_devices <= cluster.n_devices}
            total += count * min(
                (_device_seconds(profile, c, solved.case.serving.max_batch) for c in configs), default=0
            )
    span = float(result.trace.arrival[-1])
    return total / (cluster.n_devices * span) if span > 0 else math.nan


def _device_seconds(profile: ModelProfile, config: ParallelConfig, max_batch: int) -> float:
    """Device-seconds of one request at the cheapest batch size."""
    stages = profile.stage(config).latency
    return min(config.op * sum(row) / batch for batch, row in stages.items() if batch == 1 or batch <= max_batch)


def _planned_with_others(solved: Solved) -> str:
    """The first model and configuration that a plan file holds other latencies of than the case's profile; or empty."""
    if solved.case.planner.plan is None or isinstance(solved.plan, ScheduledPlan):
        return ""
    for model in solved.plan.models:
        own = solved.problem.profiles.get(model.name)
        for said, entry in model.stages.items():
            config = ParallelConfig.parse(said)
            if own is not None and config in own.stages and own.latency(config) != tuple(entry.latency_s.get(1, ())):
                return f"{model.name}, {config}"
    return ""


def decision(plan: Plan | ScheduledPlan) -> str:
    """The placement in one line."""
    if isinstance(plan, ScheduledPlan):
        placements = plan.placement.placements
        return f"{len(placements)} window(s); first: {_one_line(str(placements[0]))}"
    return _one_line(str(plan.placement))


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())
