"""`whereabouts`: turn the groups of an allocation into GPUs by number, such that few apps have to move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ...simulator.sharing.cluster import SharedCluster
from ...simulator.sharing.policy.nearness import pick
from .allocation import Allocation
from .bids import Place

__all__ = ["whereabouts"]


def whereabouts(
    cluster: SharedCluster, offered: Sequence[int], allocation: Allocation, before: Mapping[int, Sequence[int]],
    kept: Mapping[int, Sequence[int]],
) -> dict[int, tuple[int, ...]]:  # fmt: skip
    """The GPUs of each app that wins some.

    Machines of one rack with equally many free GPUs are alike to the search. So what it put on them may be exchanged,
    and is dealt out such that as many GPUs as possible stay with the app that had them.
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
        more = pick(cluster, inside.difference(had), n - len(had), (*kept.get(app, ()), *given[app], *had))
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
    """For each machine of the search, the machine to which its contents go.

    The matching is greedy: first the pair of contents and machine with which the most GPUs stay, then the next best of
    those left. Contents of which no GPU stays keep their machine if it is free, else they take the first free one.
    """
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for machine, gpus in sorted(free.items()):
        if machine not in named:
            alike[cluster.machines[machine].rack, len(gpus)].append(machine)
    moved = {machine: machine for machine in contents}
    if not any(before.values()):
        return moved
    for machines in alike.values():
        filled = [m for m in machines if m in contents]
        stays: list[tuple[int, int, int]] = []
        for m in filled:
            for home in machines:
                n = sum(min(size, len(free[home].intersection(before.get(a, ())))) for a, size in contents[m])
                if n:
                    stays.append((-n, m, home))
        to: dict[int, int] = {}
        for _, m, home in sorted(stays):
            if m not in to and home not in to.values():
                to[m] = home
        for m in filled:
            if m not in to and m not in to.values():
                to[m] = m
        for m in filled:
            if m not in to:
                to[m] = next(home for home in machines if home not in to.values())
        moved.update(to)
    return moved
