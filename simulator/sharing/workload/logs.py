"""Apps out of the job log of a shared cluster: Philly's, Helios' or Alibaba's (`traces.read_philly` …).

A log knows jobs, not apps. Jobs that a user submits to a virtual cluster within a window of time are taken as one app,
as a tuner submits the jobs that explore hyper-parameters; the app arrives when the first of them was submitted.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Sequence
from typing import Literal, get_args

from ....errors import InputError
from ....seeds import generator
from ....traces import ClusterJob, ClusterLog
from ....traces.clusters.jobs import Ended
from .app import App, Job, Phase
from .models import draw_models
from .themis import AppOptions, with_errors

__all__ = ["Grouping", "apps_of_log", "grouped"]

Grouping = Literal["user and group", "user", "group", "job"]
"""What jobs of an app have in common. ``job``: each job is an app."""


def grouped(log: ClusterLog, by: Grouping = "user and group", window_s: float = 3600.0) -> list[list[ClusterJob]]:
    """Jobs that make up an app: of the same user, virtual cluster or both, none submitted more than `window_s` after
    the first of them.

    Returns
    -------
    list of list of ClusterJob
        By the first submission; within, by submission.

    Raises
    ------
    InputError
        On an unknown grouping or a negative window.
    """
    if by not in get_args(Grouping):
        raise InputError(f"apps_of_log: by: expected one of {', '.join(get_args(Grouping))} (got {by!r})")
    if not window_s >= 0:
        raise InputError(f"apps_of_log: window_s: expected seconds >= 0 (got {window_s})")
    open_: dict[tuple[str, ...], list[ClusterJob]] = {}
    made: list[list[ClusterJob]] = []
    for job in log.jobs:
        key = {"user and group": (job.user, job.group), "user": (job.user,), "group": (job.group,), "job": ()}[by]
        mine = open_.get(key)
        if by == "job" or mine is None or job.submit_s - mine[0].submit_s > window_s:
            mine = list[ClusterJob]()
            open_[key] = mine
            made.append(mine)
        mine.append(job)
    return made


def apps_of_log(
    log: ClusterLog,
    options: AppOptions | None = None,
    *,
    by: Grouping = "user and group",
    window_s: float = 3600.0,
    ended: Sequence[Ended] = ("done", "failed", "killed"),
    start_s: float = 0.0,
    stop_s: float = math.inf,
    seed: int = 0,
) -> tuple[App, ...]:
    """Make apps from a cluster's log.

    A job gets the GPUs that it asked for and the GPU time that it had, whatever the GPUs were and wherever they were
    placed: the log does not say how fast it would have been elsewhere. Models are drawn as in Table 4, since logs do
    not state them.

    Parameters
    ----------
    log : ClusterLog
        Read by `traces.read_philly`, `read_helios` or `read_alibaba`.
    options : AppOptions, optional
        What the log does not say: a factor on the work, models, errors, and whether jobs also run on fewer GPUs.
    by : {"user and group", "user", "group", "job"}
        What the jobs of an app have in common.
    window_s : float
        Seconds after an app's first job within which its other jobs were submitted.
    ended : sequence of {"done", "failed", "killed"}
        Which jobs to take, by how they ended; by default all, since jobs that failed held GPUs as well.
    start_s, stop_s : float
        Only apps that arrive in [start, stop), seconds of the log; the first arrives at 0.
    seed : int
        Seed of models and errors.

    Raises
    ------
    InputError
        If nothing is left, or an option is out of its range.
    """
    o = options or AppOptions()
    unknown = [word for word in ended if word not in get_args(Ended)]
    if unknown:
        raise InputError(f"apps_of_log: ended: expected some of {', '.join(get_args(Ended))} (got {unknown[0]!r})")
    counted = ClusterLog(log.source, tuple(j for j in log.jobs if j.ended in ended), log.left_out)
    groups = [g for g in grouped(counted, by, window_s) if start_s <= g[0].submit_s < stop_s]
    if not groups:
        kinds = ", ".join(ended) or "none"
        raise InputError(f"{log.source}: no app arrives in [{start_s:g}, {stop_s:g}) s with jobs that are {kinds}")
    models = draw_models(generator(seed, "log models"), len(groups), o.network_intensive)
    first = groups[0][0].submit_s
    made: list[App] = []
    for jobs, model in zip(groups, models, strict=True):
        work = tuple(o.scale * j.gpu_s for j in jobs)
        phase = Phase(tuple(range(len(jobs))), work)
        each = tuple(Job(1.0, j.gpus, j.gpus if o.rigid else 1) for j in jobs)
        name, at = jobs[0].name, jobs[0].submit_s - first
        made.append(App(name, at, each, (phase,), "jobs", model.slowdown, model.name))
    return with_errors(made, o.error, seed)
