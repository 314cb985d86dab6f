"""The job logs of SenseTime's Helios clusters, `cluster_log.csv` of github.com/S-Lab-System-Group/HeliosData."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from .jobs import ClusterJob, ClusterLog, Ended, Problems, collected, seconds_of
from .rows import CellRow, table_rows

__all__ = ["read_helios"]

ENDED: dict[str, Ended] = {
    "COMPLETED": "done", "CANCELLED": "killed", "FAILED": "failed", "TIMEOUT": "failed", "NODE_FAIL": "failed",
}  # fmt: skip
UNENDED = ("SUSPENDED", "RUNNING", "PENDING")
REQUIRED = ("job_id", "user", "gpu_num", "state", "submit_time", "start_time", "duration")
OPTIONAL = ("vc",)


def read_helios(path: str | Path) -> ClusterLog:
    """Read a Helios log: a CSV with a row for each Slurm job.

    Jobs without GPUs, such as never started, and such as had not ended are left out and counted. TIMEOUT and NODE_FAIL
    count as failed, as in the analysis of its authors. The column `vc` may be missing.

    Raises
    ------
    InputError
        If the file cannot be read or something in it is of the wrong kind: all with line and column.
    """
    file = Path(path)
    problems = Problems()
    jobs: list[ClusterJob] = []
    left_out: Counter[str] = Counter()
    seen: set[str] = set()
    for row in table_rows(file, REQUIRED, problems, optional=OPTIONAL):
        name = row.name("job_id")
        if name in seen:
            row.blame("job_id", "appears twice")
        seen.add(name)
        job = _job(name, row, left_out)
        if job is not None:
            jobs.append(job)
    problems.check()
    return collected(file, jobs, left_out)


def _job(name: str, row: CellRow, left_out: Counter[str]) -> ClusterJob | None:
    before = row.problems.total
    state, user, vc = row.text("state"), row.name("user"), row.text("vc")
    if state not in ENDED and state not in UNENDED:
        row.blame("state", f"must be one of {', '.join(ENDED)}")
    gpus, duration = row.number("gpu_num", whole=True), row.number("duration", whole=False)
    if row.text("gpu_num") == "":
        row.blame("gpu_num", "is empty")
    submit, start = _time(row, "submit_time"), _time(row, "start_time")
    if submit is None and row.text("submit_time") in ("", "None"):
        row.blame("submit_time", "is empty")
    if row.problems.total > before or gpus is None or submit is None:
        return None
    if gpus == 0:
        left_out["jobs without GPUs"] += 1
    elif start is None or not duration:
        left_out["jobs that never ran"] += 1
    elif state in UNENDED:
        left_out["jobs that had not ended"] += 1
    else:
        return ClusterJob(name, user, vc, ENDED[state], submit, start, int(gpus), gpus * duration)
    return None


def _time(row: CellRow, column: str) -> float | None:
    text = row.text(column)
    if text in ("", "None"):
        return None
    seconds = seconds_of(text)
    if seconds is None:
        row.blame(column, "must be a time like 2020-06-09 18:41:01")
    return seconds
