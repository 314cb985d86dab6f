"""The GPU trace of Alibaba's PAI, cluster-trace-gpu-v2020 of github.com/alibaba/clusterdata: its tables, joined."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .jobs import ClusterJob, ClusterLog, Ended, Problems, collected
from .rows import CellRow, table_rows

__all__ = ["read_alibaba"]

JOB = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASK = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip
INSTANCE = (
    "job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "start_time", "end_time", "machine",
)  # fmt: skip
"""Columns of the tables, as their .header files have them: the tables themselves come without."""

ENDED: dict[str, Ended] = {"Terminated": "done", "Failed": "failed"}
STATES = (*ENDED, "Running", "Waiting", "Interrupted")


@dataclass(slots=True)
class _Task:
    """Sums over those of a job's tasks that were read so far."""

    gpus: float = 0.0
    gpu_s: float = 0.0
    start: float = math.inf
    share: dict[str, float] = field(default_factory=dict[str, float])  # GPUs of an instance, by task


def read_alibaba(jobs: str | Path, tasks: str | Path, instances: str | Path | None = None) -> ClusterLog:
    """Read PAI's tables of jobs and tasks, with or without headers.

    A job asks for the GPUs of all its tasks, instances times plan_gpu (percent of a GPU), rounded up to whole GPUs,
    for ours cannot be shared. GPU seconds are not rounded: a task's time times what it asked for, or, with the table of
    instances, of each instance its own time. A job's start_time is its submission. Jobs that had not ended, ask for no
    GPU or have no times are left out and counted, as are tasks of unknown jobs and a job's second task of a name.

    Parameters
    ----------
    jobs, tasks : path
        pai_job_table.csv and pai_task_table.csv.
    instances : path, optional
        pai_instance_table.csv.

    Raises
    ------
    InputError
        If a file cannot be read or something in one is of the wrong kind: all with file, line and column.
    """
    problems = Problems()
    left_out: Counter[str] = Counter()
    known = _jobs(Path(jobs), problems)
    asked = _tasks(Path(tasks), known, instances is None, problems, left_out)
    if instances is not None:
        _instances(Path(instances), asked, problems, left_out)
    problems.check()
    made: list[ClusterJob] = []
    for name, (user, status, submit) in known.items():
        task = asked.get(name)
        if status not in ENDED:
            left_out["jobs that had not ended"] += 1
        elif task is None or task.gpus == 0:
            left_out["jobs without GPUs"] += 1
        elif submit is None or task.gpu_s == 0:
            left_out["jobs without times"] += 1
        else:
            # The margin: a sum of shares that should be whole may be a hair above it, and must not cost one more GPU.
            gpus = max(1, math.ceil(task.gpus - 1e-9))
            made.append(ClusterJob(name, user, "", ENDED[status], submit, task.start, gpus, task.gpu_s))
    return collected(Path(jobs), made, left_out)


def _jobs(path: Path, problems: Problems) -> dict[str, tuple[str, str, float | None]]:
    """User, status and submission time of every job, by its name."""
    made: dict[str, tuple[str, str, float | None]] = {}
    for row in table_rows(path, ("job_name", "user", "status", "start_time"), problems, names=JOB):
        name = row.name("job_name")
        if name in made:
            row.blame("job_name", "appears twice")
        made[name] = row.text("user"), _status(row), row.number("start_time")
    return made


def _tasks(
    path: Path,
    known: dict[str, tuple[str, str, float | None]],
    timed: bool,
    problems: Problems,
    left_out: Counter[str],
) -> dict[str, _Task]:
    made: dict[str, _Task] = {}
    needed = ("job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_gpu")
    for row in table_rows(path, needed, problems, names=TASK):
        name = row.name("job_name")
        _status(row)
        count, percent = row.number("inst_num", whole=True), row.number("plan_gpu")
        times = _times(row)
        if name not in known:
            left_out["tasks of unknown jobs"] += 1
        elif count and percent:
            task = made.setdefault(name, _Task())
            if row.text("task_name") in task.share:
                left_out["tasks that appear twice"] += 1
                continue
            task.gpus += count * percent / 100
            task.share[row.text("task_name")] = percent / 100
            if times is not None:
                task.start = min(task.start, times[0])
                task.gpu_s += (times[1] - times[0]) * count * percent / 100 if timed else 0.0
    return made


def _instances(path: Path, asked: dict[str, _Task], problems: Problems, left_out: Counter[str]) -> None:
    needed = ("job_name", "task_name", "status", "start_time", "end_time")
    for row in table_rows(path, needed, problems, names=INSTANCE):
        task = asked.get(row.name("job_name"))
        times = _times(row)
        if task is None or row.text("task_name") not in task.share:
            left_out["instances without GPUs"] += 1
        elif times is None:
            left_out["instances without times"] += 1
        else:
            task.start = min(task.start, times[0])
            task.gpu_s += (times[1] - times[0]) * task.share[row.text("task_name")]


def _status(row: CellRow) -> str:
    status = row.text("status")
    if status not in STATES:
        row.blame("status", f"must be one of {', '.join(STATES)}")
    return status


def _times(row: CellRow) -> tuple[float, float] | None:
    """Start and end; None if the row lacks one (the trace has 0 or nothing there)."""
    start, end = row.number("start_time"), row.number("end_time")
    if not start or not end:
        return None
    if end < start:
        row.blame("end_time", f"is before start_time {start:g}")
        return None
    return start, end
