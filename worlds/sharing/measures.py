"""The metrics of one policy on one world, by name."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np

from ...simulator.sharing import SharingResult, sharing_metrics

__all__ = ["METRICS", "measures", "study_measures"]

METRICS = {
    "attainment": "share of apps with ρ ≤ 1: the same as fair_share, by the name that questions ask for",
    "max_rho": "largest finish-time fairness ρ of the completed apps",
    "median_rho": "median of it",
    "fair_share": "share of the completed apps with ρ ≤ 1",
    "jain": "Jain's index of 1/ρ",
    "gpu_hours": "GPU hours that all apps held",
    "work_hours": "GPU hours that the completed apps' work takes",
    "placement_score": "mean placement score of all allocations",
    "mean_completion_s": "mean time from arrival to end of completed apps, seconds",
    "p95_completion_s": "95th percentile of it, seconds",
    "makespan_s": "when the last app ended, seconds",
    "utilisation": "share of the GPU time that was held until then",
    "completed": "apps that were completed",
    "failed_apps": "apps that were not",
    "n_devices": "GPUs of the cluster",
}
"""What a study knows of a case. What `measures` calls placement and failed has another name in studies: the first
is a field of a case, the other a column of every study's summary."""

RENAMED = {"placement": "placement_score", "failed": "failed_apps"}


def measures(result: SharingResult) -> dict[str, float]:
    """Metrics by name: those of `simulator.sharing.SharingMetrics`, and p95_completion_s (seconds, of completed apps),
    completed and failed (apps). What is not known, as nothing is of no completed app, is NaN."""
    done = result.completed
    taken = result.completion_s[done]
    return {
        **asdict(sharing_metrics(result)),
        "p95_completion_s": float(np.quantile(taken, 0.95)) if len(taken) else math.nan,
        "completed": float(done.sum()),
        "failed": float((~done).sum()),
    }


def study_measures(result: SharingResult) -> dict[str, float]:
    """`measures` by the names of `METRICS`, with attainment and n_devices."""
    found = {RENAMED.get(name, name): value for name, value in measures(result).items()}
    return {"attainment": found["fair_share"], **found, "n_devices": float(result.world.cluster.n_gpus)}
