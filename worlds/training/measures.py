"""The metrics of a solved training case, and its decision in a line."""

from __future__ import annotations

import math
from itertools import groupby

from ...simulator.training import TrainingPlan
from .case import TrainingCase
from .long_run import long_run
from .solve import TrainingSolved

__all__ = ["decision", "measures"]

DAY_S, HOUR_S = 86_400.0, 3_600.0


def measures(solved: TrainingSolved) -> tuple[dict[str, float], tuple[str, ...]]:
    """Metrics of a solved case by name, finite ones only, and notes."""
    result, plan, case = solved.result, solved.plan, solved.case
    clusters, work = plan.clusters, case.workload
    n_devices = sum(c.n_devices for c in clusters)
    peak = float(result.peak_bytes[result.fullest])
    values = {
        "iteration_s": result.seconds,
        "samples_per_s": work.global_batch / result.seconds,
        "pflops": result.pflops,
        "mfu": result.mfu,
        "bubble": result.bubble,
        "peak_bytes": peak,
        "memory_headroom": 1 - peak / result.memory_bytes,
        "n_stages": float(len(plan.stages)),
        "n_devices": float(n_devices),
        "evaluations": float(plan.planner.evaluations),
    }
    if solved.tokens:
        values["tokens_per_s"] = values["samples_per_s"] * solved.tokens
    notes: list[str] = []
    long = long_run(solved)
    if long is not None:
        values |= long.metrics(values)
        notes += long.notes()
    pace = values.get("effective_samples_per_s", values["samples_per_s"])
    said = case.cluster.price_per_hour
    price = sum((c.spec.price_per_hour if said is None else said) * c.n_devices for c in clusters)
    if price > 0:
        values["cost_per_hour"] = price
        values["cost_per_sample"] = values["cost_per_hour"] / HOUR_S / pace
    if work.run_samples is not None:
        values["run_days"] = work.run_samples / pace / DAY_S
        if price > 0:
            values["run_cost"] = values["cost_per_sample"] * work.run_samples
    kept = _kept(case, values)
    if kept is None:
        notes.append("no attainment: neither slo nor deadline is given")
    else:
        values["attainment"] = float(kept)
    values["goodput"] = 0.0 if kept is False else pace
    used = sum(m.hosts * m.devices for m in plan.meshes)
    if used < n_devices:
        notes.append(f"{n_devices - used} of {n_devices} devices are not used")
    return {name: value for name, value in values.items() if math.isfinite(value)}, tuple(notes)


def _kept(case: TrainingCase, values: dict[str, float]) -> bool | None:
    """Whether the limits are kept; None if there are none."""
    work = case.workload
    limits = [(work.slo, values["iteration_s"]), (work.deadline, values.get("run_days", 0.0) * DAY_S)]
    said = [(limit * work.slo_scale, took) for limit, took in limits if limit is not None]
    return all(took <= limit for limit, took in said) if said else None


def decision(plan: TrainingPlan) -> str:
    """The plan in a line: stages that are alike together."""
    shapes: list[str] = []
    for (devices, logical, recompute), alike in groupby(
        (len(plan.mesh(s).device_ids), e.logical, e.recompute) for s, e in enumerate(plan.stages)
    ):
        count = len(list(alike))
        shape = f"{count} stage{'s' if count > 1 else ''} on {devices} device{'s' if devices > 1 else ''}"
        shapes.append(
            shape + (f" ({logical[0]}x{logical[1]})" if devices > 1 else "")
            + (f", {recompute} recomputation" if recompute != "none" else "")
        )  # fmt: skip
    counts = sorted(set(plan.microbatches_of))
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    said = f"{', '.join(shapes)}; {many} microbatch{'es' if counts[-1] > 1 else ''}, {plan.schedule}"
    zero = plan.planner.options.get("zero")
    return said + (f", ZeRO {zero}" if zero and plan.planner.name == "search" else "")
