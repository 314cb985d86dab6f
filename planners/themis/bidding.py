"""`bid_of`: the table that an app's agent sends as its bid for the GPUs on offer (Themis §4.3)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ...simulator.sharing.cluster import SharedCluster
from ...simulator.sharing.policy.agent import AppView, Shape
from .bids import Bid, Place, Row

__all__ = ["bid_of", "current_rho"]


def current_rho(cluster: SharedCluster, view: AppView) -> float:
    """ρ with the GPUs that the app has now, including those whose lease has just ended; infinite if it has none."""
    return view.rho(Shape.of(cluster, (*view.held, *view.lapsed)))


def bid_of(cluster: SharedCluster, offered: Sequence[int], view: AppView) -> Bid:
    """The bid of an app: ρ of every kind of allocation that it can tell apart, on top of what it keeps.

    For each number of GPUs these are: all on one machine; in groups on machines, each as large as one of its jobs; all
    in one rack; and anywhere. If the app keeps GPUs, there is also a row for each machine and each rack that holds
    some.
    """
    held = Counter(cluster.machine_of[list(view.held)].tolist()) if view.held else Counter[int]()
    racks = sorted({cluster.machines[m].rack for m in held})
    free = Counter(cluster.machine_of[list(offered)].tolist())
    free_in_rack = Counter(cluster.rack_of[list(offered)].tolist())
    n_racks = len({m.rack for m in cluster.machines})
    kept = tuple(held.values())
    jobs, cap = len(view.jobs), max(j.cap for j in view.jobs)
    rows = [Row(0, view.rho(_merged(kept, (), len(racks))))]
    for n in range(1, min(view.wanted, len(offered)) + 1):
        running = min(jobs, (n + len(view.held)) // max(view.gang, 1)) or 1
        each = min(cap, (n + len(view.held)) // running)
        anywhere = _merged(kept, (1,) * n, n_racks)
        rows.append(Row(n, view.rho(anywhere)))
        if each <= 1:
            continue  # jobs of one GPU do not care where it is
        for group in sorted({min(each, n), n}, reverse=True):
            if group > 1 and group <= max(free.values()):
                spread = n_racks if kept or group < n else 1
                groups = Shape.grouped(n, group).machines
                rows.append(Row(n, view.rho(_merged(kept, groups, spread)), Place.MACHINES, group))
        if not kept and n <= max(free_in_rack.values()):
            rows.append(Row(n, view.rho(_merged((), (1,) * n, 1)), Place.RACK))
        for m, count in held.items():
            if n <= free[m]:
                others = tuple(c for other, c in held.items() if other != m)
                beside = Shape(tuple(sorted((*others, count + n), reverse=True)), len(racks))
                rows.append(Row(n, view.rho(beside), Place.MACHINES, n, m))
        for r in racks:
            if n <= free_in_rack[r]:
                rows.append(Row(n, view.rho(_merged(kept, (1,) * n, len(racks))), Place.RACK, 0, r))
    return Bid(view.index, tuple(row for row in rows if row.gpus == 0 or row.rho < math.inf))


def _merged(kept: Sequence[int], more: Sequence[int], racks: int) -> Shape:
    return Shape(tuple(sorted((*kept, *more), reverse=True)), racks)
