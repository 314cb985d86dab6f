"""The sharing world: many training apps on one cluster (Themis and the schedulers that it is compared with)."""

from __future__ import annotations

from .cluster import Level, Machine, SharedCluster, themis_168, themis_256, themis_testbed
from .policy.agent import AppView, Convention, Shape
from .policy.baselines import BASELINES, baseline
from .policy.contract import Greedy, Policy
from .policy.learning import Beliefs, SlowdownLearner
from .policy.nearness import Chooser, Placement
from .reference.engine import simulate_reference
from .result.columns import SharingResult
from .result.metrics import SharingMetrics, placement_scores, sharing_metrics
from .result.timeline import chrome_trace, gpu_timeline
from .simulate import simulate
from .varying import Speeds, draw_speeds
from .workload.app import App, Job, LossCurve, Phase, Slowdown
from .workload.logs import apps_of_log
from .workload.models import MODELS, TrainedModel, trained_model
from .workload.themis import AppOptions, WorkloadOptions, contended, with_errors, workload1, workload2
from .world import AppFailure, MachineFailure, SharingWorld

__all__ = [
    "BASELINES", "MODELS", "App", "AppFailure", "AppOptions", "AppView", "Beliefs", "Chooser", "Convention", "Greedy",
    "Job", "Level", "LossCurve", "Machine", "MachineFailure", "Phase", "Placement", "Policy", "Shape", "SharedCluster",
    "SharingMetrics", "SharingResult", "SharingWorld", "Slowdown", "SlowdownLearner", "Speeds", "TrainedModel",
    "WorkloadOptions", "apps_of_log", "baseline", "chrome_trace", "contended", "draw_speeds", "gpu_timeline",
    "placement_scores",
    "sharing_metrics", "simulate", "simulate_reference", "themis_168", "themis_256", "themis_testbed",
    "trained_model", "with_errors", "workload1", "workload2",
]  # fmt: skip
