"""`ClusterLog`: the jobs of a shared GPU cluster as plain records, independent of the log's format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ...errors import InputError
from ...reprs import Shown
from ..files.complaints import listed

__all__ = ["ClusterJob", "ClusterLog", "Ended", "Problems", "collected", "seconds_of"]

Ended = Literal["done", "failed", "killed"]
EPOCH = datetime(1970, 1, 1)
SHOWN = 20  # problems of a file that are listed: a screenful


@dataclass(frozen=True, slots=True, repr=False)
class ClusterJob(Shown):
    """A job that ran on GPUs and ended.

    Parameters
    ----------
    name, user, group : str
        As the log has them; the group is the virtual cluster, or empty.
    ended : {"done", "failed", "killed"}
        How.
    submit_s, start_s : float
        When it was submitted and first ran, seconds after the log's first submission.
    gpus : int
        GPUs that it asked for.
    gpu_s : float
        GPU seconds that it had, all attempts.
    """

    name: str
    user: str
    group: str
    ended: Ended
    submit_s: float
    start_s: float
    gpus: int
    gpu_s: float


@dataclass(frozen=True, repr=False)
class ClusterLog(Shown):
    """The jobs of a log, by submission.

    Parameters
    ----------
    source : str
        Where it was read.
    jobs : tuple of ClusterJob
        Those that ran on GPUs and ended.
    left_out : mapping of str to int
        Why others are not among them, and how many.
    """

    source: str
    jobs: tuple[ClusterJob, ...]
    left_out: Mapping[str, int]

    def __str__(self) -> str:
        days = self.jobs[-1].submit_s / 86400 if self.jobs else 0.0
        gpu_days = sum(j.gpu_s for j in self.jobs) / 86400
        out = "".join(f"; left out: {n} {why}" for why, n in self.left_out.items())
        return f"{self.source}: {len(self.jobs)} jobs in {days:.1f} days, {gpu_days:.1f} GPU days{out}"


def collected(source: Path, jobs: list[ClusterJob], left_out: Counter[str]) -> ClusterLog:
    """Make a log from jobs in any order, whose times may count from any moment.

    Raises
    ------
    InputError
        If there is none.
    """
    if not jobs:
        why = ", ".join(f"{n} {reason}" for reason, n in left_out.items()) or "it is empty"
        raise InputError(f"{source}: no job that ran on GPUs and ended ({why})")
    first = min(j.submit_s for j in jobs)
    made = sorted(
        (replace(j, submit_s=j.submit_s - first, start_s=j.start_s - first) for j in jobs),
        key=lambda j: (j.submit_s, j.name),  # by name at one instant: logs list such jobs in any order
    )
    return ClusterLog(str(source), tuple(made), MappingProxyType(dict(left_out)))


class Problems:
    """What is wrong with a file, collected to be raised at once."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.total = 0

    def add(self, where: str, what: str, got: object) -> None:
        """Note one problem. All are counted, and the first twenty are shown."""
        self.total += 1
        if len(self.shown) < SHOWN:
            self.shown.append(f"{where}: {what} (got {str(got)[:60]!r})")

    def check(self) -> None:
        """Raise an error with the collected problems, if there are any.

        Raises
        ------
        InputError
            If anything was.
        """
        if self.total:
            raise InputError(listed(self.shown, self.total))


def seconds_of(text: str) -> float | None:
    """Seconds of a time like 2017-10-07 01:12:09, of no zone; None if it is none."""
    try:
        made = datetime.strptime(text, "%Y-%m-%d %H:%M:%S") if len(text) != 19 else datetime.fromisoformat(text)
    except ValueError:
        return None
    return (made - EPOCH).total_seconds() if made.tzinfo is None else None
