"""The sharing world: many training apps on one cluster (Themis and the schedulers that it is compared with)."""

from __future__ import annotations

from .agent import AppView, Convention, Shape
from .app import App, Job, LossCurve, Phase, Slowdown
from .cluster import Level, Machine, SharedCluster, themis_168, themis_256, themis_testbed
from .metrics import SharingMetrics, placement_scores, sharing_metrics
from .nearness import Chooser, Placement
from .policies import BASELINES, baseline
from .policy import Greedy, Policy
from .reference import simulate_reference
from .result import SharingResult
from .simulate import simulate
from .timeline import chrome_trace, gpu_timeline
from .workloads import WorkloadOptions, contended, with_errors, workload1, workload2
from .workloads_logs import apps_of_log
from .workloads_models import MODELS, TrainedModel, trained_model
from .world import AppFailure, MachineFailure, SharingWorld

__all__ = [
    "BASELINES", "MODELS", "App", "AppFailure", "AppView", "Chooser", "Convention", "Greedy", "Job", "Level",
    "LossCurve", "Machine", "MachineFailure", "Phase", "Placement", "Policy", "Shape", "SharedCluster",
    "SharingMetrics", "SharingResult", "SharingWorld", "Slowdown", "TrainedModel", "WorkloadOptions", "apps_of_log",
    "baseline", "chrome_trace", "contended", "gpu_timeline", "placement_scores", "sharing_metrics", "simulate",
    "simulate_reference", "themis_168", "themis_256", "themis_testbed", "trained_model", "with_errors", "workload1",
    "workload2",
]  # fmt: skip
