"""Points of GraphPipe's figures: plans of each system, simulated by one engine, as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError, LimitError
from ..report import Frame, Progress, quiet
from .systems import Point, plan_of

if TYPE_CHECKING:
    from ...simulator.training.plan.file import TrainingPlan

__all__ = ["depth_of", "measure", "measure_all", "over"]


def depth_of(plan: TrainingPlan) -> int:
    """Stages of the longest path of a plan's stages (§3.2: pipeline depth)."""
    from ...simulator.training.plan.graph_words import stage_graph

    return stage_graph(plan).depth


def measure(point: Point) -> dict[str, Any]:
    """One row: the plan's iteration, simulated; NaN where there is no plan, with the reason."""
    from ...simulator.training import simulate_training

    row: dict[str, Any] = {
        "model": point.model, "branches": point.branches, "gpus": point.gpus, "batch": point.batch,
        "fixed_microbatch": point.microbatch or 0, "one_device": point.setting.one_device,
        "usable_gib": point.setting.usable_gib, "system": point.system,
    }  # fmt: skip
    try:
        plan = plan_of(point)
    except (InfeasibleError, LimitError) as error:
        return row | dict.fromkeys(_MEASURED, math.nan) | {"note": " ".join(str(error).split())}
    result = simulate_training(plan)
    sizes = [plan.microbatch_of(s) for s in range(len(plan.stages))]
    return row | {
        "samples_per_s": result.samples_per_s,
        "seconds": result.seconds,
        "bubble": result.bubble,
        "stages": len(plan.stages),
        "depth": depth_of(plan),
        "data_parallel": max(plan.mesh(s).n_devices for s in range(len(plan.stages))),
        "least_microbatch": min(sizes),
        "largest_microbatch": max(sizes),
        "peak_gib": float(result.peak_bytes.max()) / 2**30,
        "planning_s": plan.planner.seconds,
        "note": "",
    }


_MEASURED = (
    *("samples_per_s", "seconds", "bubble", "stages", "depth", "data_parallel", "least_microbatch"),
    *("largest_microbatch", "peak_gib", "planning_s"),
)


def measure_all(points: Iterable[Point], progress: Progress = quiet) -> Frame:
    """Measure every point: one row for each."""
    import pandas as pd

    jobs = list(points)
    rows: list[dict[str, Any]] = []
    for k, point in enumerate(jobs):
        progress(k, len(jobs), f"{point.model}, {point.branches} branches, {point.gpus} GPUs: {point.system}")
        rows.append(measure(point))
    progress(len(jobs), len(jobs), "")
    return pd.DataFrame(rows)


def over(frame: Frame, a: str, b: str, by: str = "gpus") -> dict[float, float]:
    """Value of the column `by` -> throughput of system `a` over `b`'s, where both have a plan.

    The frame holds one model, and one point of each system for each value.
    """
    part = frame.pivot(index=by, columns="system", values="samples_per_s")
    if a not in part or b not in part:
        return {}
    both = part[[a, b]].dropna()
    return {n: float(both[a][n] / both[b][n]) for n in both.index.tolist()}
