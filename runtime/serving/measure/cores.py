"""Who used the cores during a run: these processes, others on the machine, or the host (steal time)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NOT_KNOWN", "CoreUse", "Snapshot", "snapshot", "used_between"]

USER, NICE, SYSTEM, IRQ, SOFTIRQ, STEAL = 1, 2, 3, 6, 7, 8
"""Columns of a core's line in /proc/stat (proc(5)), after its name."""


@dataclass(frozen=True, slots=True)
class CoreUse:
    """Shares of the time of all cores that a run was pinned to; NaN where the system does not tell.

    Parameters
    ----------
    ours : float
        By the run: its workers with all of their threads, and its controller.
    others : float
        By everything else on this machine.
    stolen : float
        By the host that this virtual machine runs on.
    """

    ours: float
    others: float
    stolen: float


NOT_KNOWN = CoreUse(float("nan"), float("nan"), float("nan"))
"""Nobody looked, or the system does not tell."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Seconds used until now: by all, by the host, by these processes, and of the clock."""

    busy_s: float
    stolen_s: float
    ours_s: float
    at_s: float


def snapshot(pids: Sequence[int], cores: Sequence[int], at_s: float) -> Snapshot | None:
    """Read what was used until now; None on a system without /proc."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        ours = sum(_process_s(pid) for pid in (os.getpid(), *pids))
    except OSError:
        return None
    tick = os.sysconf("SC_CLK_TCK")
    busy = stolen = 0.0
    for line in lines:
        name, *_ = words = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            busy += sum(int(words[column]) for column in (USER, NICE, SYSTEM, IRQ, SOFTIRQ)) / tick
            stolen += int(words[STEAL]) / tick
    return Snapshot(busy, stolen, ours, at_s)


def used_between(before: Snapshot | None, after: Snapshot | None, cores: int) -> CoreUse:
    """Shares between two snapshots."""
    if before is None or after is None or not (cores and after.at_s > before.at_s):
        return NOT_KNOWN
    whole = (after.at_s - before.at_s) * cores
    ours = after.ours_s - before.ours_s
    others = max(after.busy_s - before.busy_s - ours, 0.0)
    return CoreUse(ours / whole, others / whole, (after.stolen_s - before.stolen_s) / whole)


def _process_s(pid: int) -> float:
    """CPU seconds of a process with all of its threads; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    words = text.rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime, proc(5)
