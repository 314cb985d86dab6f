"""`whereabouts`: from groups of an allocation to GPUs by number, moving as few apps as can be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...simulator.sharing.cluster import SharedCluster
from ...simulator.sharing.nearness import pick
from .allocation import Allocation
from .bids import Place

__all__ = ["whereabouts"]


def whereabouts(
    cluster: SharedCluster, offered: Sequence[int], allocation: Allocation, before: Mapping[int, Sequence[int]]
) -> dict[int, tuple[int, ...]]:
    """GPUs of each app that wins some.

    Machines of a rack with as many free GPUs are alike to the search: what it put on them is dealt out so that as many
    GPUs as possible stay with the app that had them (an assignment problem).
    """
    pool = set(offered)
    free: dict[int, set[int]] = defaultdict(set)
    for g in offered:
        free[int(cluster.machine_of[g])].add(g)
    contents: dict[int, list[tuple[int, int]]] = defaultdict(list)
    named: set[int] = set()
    for app, row in allocation.rows.items():
        if row.place == Place.MACHINES and row.gpus:
            for machine, size in allocation.items[app]:
                contents[machine].append((app, size))
                if row.region >= 0:
                    named.add(machine)
    moved = _stay(cluster, contents, named, free, before)
    given: dict[int, list[int]] = defaultdict(list)

    def give(app: int, inside: set[int], n: int) -> None:
        had = sorted(inside.intersection(before.get(app, ())))[:n]
        more = pick(cluster, inside.difference(had), n - len(had), (*given[app], *had))
        given[app] += [*had, *more]
        pool.difference_update(had, more)

    for machine, groups in sorted(contents.items()):
        for app, size in groups:
            give(app, free[moved[machine]] & pool, size)
    for place in (Place.RACK, Place.ANYWHERE):
        for app, row in sorted(allocation.rows.items()):
            if row.gpus and row.place == place:
                rack = allocation.items[app][0][0] if place == Place.RACK else None
                inside = pool if rack is None else {g for g in pool if int(cluster.rack_of[g]) == rack}
                give(app, set(inside), row.gpus)
    return {app: tuple(sorted(gpus)) for app, gpus in given.items()}


def _stay(
    cluster: SharedCluster, contents: Mapping[int, Sequence[tuple[int, int]]], named: set[int],
    free: Mapping[int, set[int]], before: Mapping[int, Sequence[int]],
) -> dict[int, int]:  # fmt: skip
    """For each machine of the search, the one that its contents go to."""
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for machine, gpus in free.items():
        if machine not in named:
            alike[cluster.machines[machine].rack, len(gpus)].append(machine)
    moved = {machine: machine for machine in contents}
    for machines in alike.values():
        filled = [m for m in machines if m in contents]
        if not filled or not before:
            continue
        stays = np.zeros((len(filled), len(machines)))
        for i, m in enumerate(filled):
            for j, home in enumerate(machines):
                stays[i, j] = sum(min(size, len(free[home].intersection(before.get(a, ())))) for a, size in contents[m])
        for i, j in zip(*linear_sum_assignment(-stays), strict=True):
            moved[filled[int(i)]] = machines[int(j)]
    return moved
