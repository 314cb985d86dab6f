"""What ran: day, processor, versions, and who used the cores meanwhile."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ... import __version__
from ...reprs import Shown

__all__ = ["Machine", "Used", "Watch", "machine"]

PACKAGES = ("numpy", "numba", "torch")
"""Whose versions may change a figure."""


@dataclass(frozen=True, slots=True, repr=False)
class Machine(Shown):
    """The machine that ran, and its software.

    Parameters
    ----------
    date : str
        Day of the run.
    processor, system : str
        Model of the processor with the cores that may be used; operating system.
    versions : dict of str to str
        Package -> version.
    """

    date: str
    processor: str
    system: str
    versions: dict[str, str]

    @property
    def name(self) -> str:
        """The hardware in a few words."""
        return self.processor

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


def machine() -> Machine:
    """Look at this machine."""
    versions = {"meshwright": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    plural = "core" if cores == 1 else "cores"
    return Machine(
        date.today().isoformat(), f"{cores} {plural} of {_processor()}", f"{platform.system()} {platform.machine()}",
        versions,
    )  # fmt: skip


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text("utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


@dataclass(frozen=True, slots=True, repr=False)
class Used(Shown):
    """Who used the cores over a while.

    Parameters
    ----------
    seconds : float
        How long it was.
    ours, others, host : float
        Shares of the time of all cores that this process with its workers, others on this machine, and the host that
        it runs on took; NaN where the system does not tell.
    """

    seconds: float
    ours: float
    others: float
    host: float

    def words(self) -> str:
        """In a sentence's part."""
        if self.others != self.others:
            return "the system does not tell who used the cores"
        return f"others on the machine took {self.others:.1%} of the cores, the host {self.host:.1%}"


class Watch:
    """Looks at who uses the cores from when it is made."""

    def __init__(self) -> None:
        self._began = _counted()

    def used(self) -> Used:
        """Who used them until now."""
        began, now = self._began, _counted()
        seconds = now[0] - began[0]
        if began[1] is None or now[1] is None:
            return Used(seconds, float("nan"), float("nan"), float("nan"))
        (busy, stolen, cores), (busy_before, stolen_before, _) = now[1], began[1]
        whole, ours = seconds * cores, now[2] - began[2]
        others = max(0.0, busy - busy_before - ours)
        return Used(seconds, ours / whole, others / whole, (stolen - stolen_before) / whole)


def _counted() -> tuple[float, tuple[float, float, int] | None, float]:
    """Clock; seconds that all cores were busy, and stolen, and how many they are; ours, ended workers included."""
    times = os.times()
    ours = times.user + times.system + times.children_user + times.children_system
    stat = Path("/proc/stat")
    if not stat.is_file():
        return time.perf_counter(), None, ours
    lines = [line.split() for line in stat.read_text().splitlines() if line.startswith("cpu")]
    # user, nice, system, idle, iowait, irq, softirq, steal (proc(5))
    number = [int(word) for word in lines[0][1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    busy = sum(number[k] for k in (0, 1, 2, 5, 6)) / tick
    return time.perf_counter(), (busy, number[7] / tick, len(lines) - 1), ours
