"""What the sharing world calls its metrics."""

from __future__ import annotations

__all__ = ["METRICS"]

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
    "max_rho_low": "lower end of the interval that holds 95 % of the draws of max_rho; of drawn times",
    "max_rho_high": "its upper end",
    "mean_completion_s_low": "the same of mean_completion_s",
    "mean_completion_s_high": "its upper end",
    "gpu_hours_low": "the same of gpu_hours",
    "gpu_hours_high": "its upper end",
}
"""What a study knows of a case. What `measures` calls placement and failed has another name in studies: the first
is a field of a case, the other a column of every study's summary."""
