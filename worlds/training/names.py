"""What the training world calls its metrics."""

from __future__ import annotations

__all__ = ["METRICS"]

METRICS = {
    "attainment": "1 where an iteration keeps slo and the run its deadline, else 0",
    "goodput": "samples per second, where the limits are kept; else 0",
    "iteration_s": "simulated time of one iteration, seconds",
    "samples_per_s": "samples per second",
    "tokens_per_s": "tokens per second, of models whose samples are sequences",
    "pflops": "model PFLOP/s of all devices together",
    "mfu": "model FLOPs per second over the peak of the devices that the plan uses",
    "bubble": "share of the device time in which nothing is computed",
    "peak_bytes": "most memory of a device that the plan takes, bytes",
    "memory_headroom": "share of that device's memory that stays free",
    "n_stages": "pipeline stages",
    "n_devices": "devices of the cluster",
    "cost_per_hour": "price of the cluster per hour",
    "cost_per_sample": "price of one sample",
    "run_days": "time of the whole run, days",
    "run_cost": "price of the whole run",
    "effective_share": "of runs with failures: share of the time that was training which counts, mean of the draws",
    "effective_share_expected": "the same in closed form, where there is one",
    "effective_samples_per_s": "samples per second over a whole run with failures",
    "effective_tokens_per_s": "tokens per second over a whole run with failures",
    "checkpoint_interval_s": "training between two checkpoints, whole iterations, seconds",
    "checkpoint_stall_s": "for how long training stands still for a checkpoint, seconds",
    "failures_per_day": "failures of all nodes together, a day",
    "lost_share": "share of the time of a run with failures that they undid",
    "restart_share": "share of the time of a run with failures that restarts took",
    "waiting_share": "share of the time of a run with failures in which it waited for nodes",
    "evaluations": "candidates that the planner evaluated",
}
"""What a study knows of a case."""
