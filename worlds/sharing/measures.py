"""The metrics of one policy on one world, by name."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np

from ...simulator.sharing import SharingResult, sharing_metrics

__all__ = ["measures", "study_measures"]

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
