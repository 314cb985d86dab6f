"""What a workload is like: the quantities of Themis' Figures 1–4 and 8, and how much it asks of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .app import App

__all__ = [
    "app_gpu_s", "demand", "gpus_per_job", "jobs_per_app", "mean_demand", "offered_load", "task_s",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def jobs_per_app(apps: Sequence[App]) -> Ints:
    """Jobs of each app (Figs. 2, 8b)."""
    return np.array([len(a.jobs) for a in apps], dtype=np.int64)


def gpus_per_job(apps: Sequence[App]) -> Ints:
    """GPUs that each job can use, its tasks (Fig. 8a)."""
    return np.array([j.gpus for a in apps for j in a.jobs], dtype=np.int64)


def app_gpu_s(apps: Sequence[App]) -> Floats:
    """GPU seconds of each app (Fig. 3)."""
    return np.array([sum(a.work_s(k) for k in range(len(a.phases))) for a in apps], dtype=np.float64)


def task_s(apps: Sequence[App]) -> Floats:
    """GPU seconds of each task: of a job over its tasks, all phases that it reaches (Fig. 4)."""
    made: list[Floats] = []
    for app in apps:
        work = np.zeros(len(app.jobs))
        for phase in app.phases:
            for j, iterations in zip(phase.jobs, phase.iterations, strict=True):
                work[j] += iterations * app.jobs[j].iteration_s
        gpus = np.array([j.gpus for j in app.jobs])
        made.append(np.repeat(work / gpus, gpus))
    return np.concatenate(made) if made else np.zeros(0)


def demand(apps: Sequence[App]) -> tuple[Floats, Floats]:
    """GPUs that all apps together could use, over time, on a cluster where nobody waits or is slowed (Fig. 1).

    Returns
    -------
    at_s, gpus : ndarray
        From each instant on, that many.
    """
    times: list[float] = []
    steps: list[int] = []
    for app in apps:
        start = app.arrival_s
        for k, phase in enumerate(app.phases):
            end = start
            for j, iterations in zip(phase.jobs, phase.iterations, strict=True):
                cap = app.cap(k, j)
                done = start + iterations * app.jobs[j].iteration_s / cap
                times += (start, done)
                steps += (cap, -cap)
                end = max(end, done)
            start = end
    at, where = np.unique(np.array(times), return_inverse=True)
    change = np.zeros(len(at))
    np.add.at(change, where, np.array(steps, dtype=np.float64))
    return at, np.cumsum(change)


def mean_demand(apps: Sequence[App]) -> float:
    """GPUs in demand on average, from the first arrival until the last app would be done if nobody waited."""
    at, gpus = demand(apps)
    return float((gpus[:-1] * np.diff(at)).sum() / (at[-1] - at[0]))


def offered_load(apps: Sequence[App], n_gpus: int) -> float:
    """Work that arrives over what the cluster can do until the last arrival; infinite if all arrive at once."""
    span = max(a.arrival_s for a in apps) - min(a.arrival_s for a in apps)
    return float(app_gpu_s(apps).sum() / (span * n_gpus)) if span > 0 else float("inf")
