"""The job log of Microsoft's Philly cluster, `cluster_job_log` of github.com/msr-fiddle/philly-traces."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

from ...errors import InputError
from ..files.text import text_lines, translated_errors
from .jobs import ClusterJob, ClusterLog, Ended, Problems, collected, seconds_of
from .json_places import line_and_column, places

__all__ = ["read_philly"]

ENDED: dict[str, Ended] = {"Pass": "done", "Killed": "killed", "Failed": "failed"}
NAMES = ("jobid", "user", "vc")
KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")

Path_ = tuple[str | int, ...]
Fault = tuple[Path_, str, object]
MISSING = (None, "", "None")


def read_philly(path: str | Path) -> ClusterLog:
    """Read Philly's job log: a JSON list of jobs with their attempts, gzipped or not.

    A job asks for the GPUs of its first attempt and had those of all attempts, each for its time. The log's own
    documentation tells of jobs that never ran, of attempts without times, and of jobs that still run: the first and the
    last are left out and counted, as are attempts without times. Times are of the cluster's wall clock, which was set
    back in November 2017: an attempt that ends before it starts is left out too.

    Raises
    ------
    InputError
        If the file cannot be read, is no such JSON, or something in it is of the wrong kind: all with line and column.
    """
    file = Path(path)
    with translated_errors(file):
        text = "".join(text_lines(file))
    try:
        entries: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}:{error.colno}: is no JSON ({error.msg})") from None
    except RecursionError:
        raise InputError(f"{file}: is no job log: brackets in brackets without end") from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{file}: is no job log ({str(error).split(':')[0]})") from None
    if not isinstance(entries, list):
        raise InputError(f"{file}:1:1: expected a list of jobs (got {type(entries).__name__})")
    faults: list[Fault] = []
    jobs: list[ClusterJob] = []
    left_out: Counter[str] = Counter()
    seen: dict[str, int] = {}
    for number, entry in enumerate(cast("list[Any]", entries)):
        if not isinstance(entry, dict):
            faults.append(((number,), "expected a job: an object", entry))
            continue
        job = _job(number, cast("dict[str, Any]", entry), faults, left_out)
        name = cast("dict[str, Any]", entry).get("jobid")
        if isinstance(name, str) and seen.setdefault(name, number) != number:
            faults.append(((number, "jobid"), f"expected each job once; it is job {seen[name]} too", name))
        if job is not None:
            jobs.append(job)
    if faults:
        _raise(file, text, faults)
    return collected(file, jobs, left_out)


def _job(number: int, entry: dict[str, Any], faults: list[Fault], left_out: Counter[str]) -> ClusterJob | None:
    before = len(faults)
    missing = [key for key in KEYS if key not in entry]
    faults += [((number,), f"missing {key!r}", ", ".join(entry)) for key in missing]
    for key in NAMES:
        if key in entry and not isinstance(entry[key], str):
            faults.append(((number, key), f"{key} must be text", entry[key]))
    if "status" in entry and entry["status"] not in tuple(ENDED):
        faults.append(((number, "status"), f"status must be one of {', '.join(ENDED)}", entry["status"]))
    submit = _time(entry.get("submitted_time"), (number, "submitted_time"), faults)
    attempts: Any = entry.get("attempts", [])
    if not isinstance(attempts, list):
        faults.append(((number, "attempts"), "attempts must be a list", attempts))
        return None
    ran, last_end = _attempts(number, cast("list[Any]", attempts), faults, left_out)
    if len(faults) > before:
        return None
    if submit is None:
        left_out["jobs without a time of submission"] += 1
    elif not attempts:
        left_out["jobs that never ran"] += 1
    elif last_end is None:
        left_out["jobs that had not ended"] += 1
    elif not ran:
        left_out["jobs without an attempt on GPUs"] += 1
    else:
        gpu_s = sum((end - start) * gpus for start, end, gpus in ran)
        names = (entry["jobid"], entry["user"], entry["vc"])
        return ClusterJob(*names, ENDED[entry["status"]], submit, min(a[0] for a in ran), ran[0][2], gpu_s)
    return None


def _attempts(
    number: int, attempts: list[Any], faults: list[Fault], left_out: Counter[str]
) -> tuple[list[tuple[float, float, int]], float | None]:
    """Start, end and GPUs of every usable attempt, and the time at which the last of all attempts ended."""
    ran: list[tuple[float, float, int]] = []
    end = None
    for k, attempt in enumerate(attempts):
        at: Path_ = (number, "attempts", k)
        if not isinstance(attempt, dict):
            faults.append((at, "expected an attempt: an object", attempt))
            continue
        fields = cast("dict[str, Any]", attempt)
        faults += [(at, f"missing {x!r}", ", ".join(fields)) for x in ("start_time", "end_time") if x not in fields]
        start = _time(fields.get("start_time"), (*at, "start_time"), faults)
        end = _time(fields.get("end_time"), (*at, "end_time"), faults)
        gpus = _gpus(fields.get("detail"), (*at, "detail"), faults)
        if start is None or end is None:
            left_out["attempts without times"] += 1
        elif end < start:
            left_out["attempts that end before they start"] += 1
        elif gpus and end > start:
            ran.append((start, end, gpus))
    return ran, end


def _gpus(detail: Any, at: Path_, faults: list[Fault]) -> int:
    """GPUs of all machines of an attempt."""
    if not isinstance(detail, list):
        faults.append((at if detail is not None else at[:-1], "detail must be a list of machines", detail))
        return 0
    count = 0
    machines = cast("list[Any]", detail)
    for k in range(len(machines)):
        machine: Any = machines[k]
        gpus: Any = cast("dict[str, Any]", machine).get("gpus") if isinstance(machine, dict) else None
        if isinstance(gpus, list):
            count += len(cast("list[Any]", gpus))
        else:
            faults.append(((*at, k), "expected a machine with a list of gpus", cast("object", machine)))
    return count


def _time(value: Any, at: Path_, faults: list[Fault]) -> float | None:
    if value in MISSING:
        return None
    seconds = seconds_of(value) if isinstance(value, str) else None
    if seconds is None:
        faults.append((at, f"{at[-1]} must be a time like 2017-10-07 01:12:09", value))
    return seconds


def _raise(file: Path, text: str, faults: list[Fault]) -> None:
    problems = Problems()
    # finding a place is slow, and few of them are shown
    known = places(text, {at for at, _, _ in faults[:100]})
    for at, what, got in faults:
        line, column = known.get(at) or known.get(at[:1]) or line_and_column(text, 0)
        problems.add(f"{file}:{line}:{column}: job {at[0]}", what, got)
    problems.check()
