"""Which replica sends each part: `choose_senders` evens out their work, `first_senders` is the naive way."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ...cluster import Cluster, JoinedClusters

__all__ = [
    "Candidate",
    "Choice",
    "Network",
    "choose_senders",
    "first_senders",
    "in_order_seconds",
    "loads_of",
    "phase_seconds",
]

Network = Cluster | JoinedClusters
"""What says how devices are linked."""
SEARCHED, SEARCHED_PARTS = 5_000, 100
"""Partial choices that are looked at before the search gives up (a few hundredths of a second), and parts that it takes
on at most. Guesses of patience, as a plan asks for many reshardings; `Choice.exact` says where the search gave up."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A part that a device needs, and who could send it."""

    target: int
    senders: tuple[int, ...]
    n_bytes: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of senders: the sender of each part, seconds until all have arrived, and whether it is known optimal."""

    senders: tuple[int, ...]
    seconds: float
    exact: bool


Loads = dict[Hashable, float]


def choose_senders(parts: Sequence[Candidate], cluster: Network) -> Choice:
    """Choose senders: greedily by load, largest part first, then by search where a better choice is not ruled out.

    All parts are under way at once. A device sends (and receives) one after the other, at the speed of the link; all
    that crosses a network adapter, or leaves a group of the cluster's levels by its uplinks, shares it, in each
    direction.
    """
    order = sorted(range(len(parts)), key=lambda k: (-parts[k].n_bytes, len(parts[k].senders), k))
    loads: Loads = {}
    picked = [0] * len(parts)
    for k in order:
        part = parts[k]

        def after(sender: int, part: Candidate = part) -> tuple[float, float, int]:
            added = _added(part, sender, cluster)
            busy = [loads.get(r, 0.0) + x for r, x in added]
            return max(busy), sum(busy), sender  # the number last: the same choice on every machine

        picked[k] = min(part.senders, key=after)
        _add(loads, _added(part, picked[k], cluster), 1.0)
    seconds = phase_seconds(parts, picked, cluster)
    least = _bound(parts, cluster)
    if seconds <= least * (1 + 1e-12):  # sums in another order differ in the last digits
        return Choice(tuple(picked), seconds, True)
    if len(parts) > SEARCHED_PARTS:
        return Choice(tuple(picked), seconds, False)
    better, complete = _search(parts, order, cluster, seconds, least)
    if better is not None:
        picked, seconds = better, phase_seconds(parts, better, cluster)
    return Choice(tuple(picked), seconds, complete)


def first_senders(parts: Sequence[Candidate], cluster: Network) -> Choice:
    """The first of those who could send each part does, one part after the other: sends and receives that block."""
    picked = tuple(part.senders[0] for part in parts)
    return Choice(picked, in_order_seconds(parts, picked, cluster), False)


def in_order_seconds(parts: Sequence[Candidate], senders: Sequence[int], cluster: Network) -> float:
    """Seconds until all parts have arrived, each sent once those before it have left its devices and adapters.

    Devices work through their sends and receives in the order of `parts`. A part waits for its sender, its receiver and
    the adapters between them, and holds them while it is under way.
    """
    free: Loads = {}
    for part, sender in zip(parts, senders, strict=True):
        held = _added(part, sender, cluster)
        begin = max(free.get(resource, 0.0) for resource, _ in held)
        for resource, seconds in held:
            free[resource] = begin + seconds
    return max(free.values(), default=0.0)


def phase_seconds(parts: Sequence[Candidate], senders: Sequence[int], cluster: Network) -> float:
    """Seconds until all parts have arrived."""
    return max(loads_of(parts, senders, cluster).values(), default=0.0)


def loads_of(parts: Sequence[Candidate], senders: Sequence[int], cluster: Network) -> Loads:
    """Seconds for which each device, adapter and uplink is busy with all parts."""
    loads: Loads = {}
    for part, sender in zip(parts, senders, strict=True):
        _add(loads, _added(part, sender, cluster), 1.0)
    return loads


def _added(part: Candidate, sender: int, cluster: Network) -> list[tuple[Hashable, float]]:
    """What one part adds to the seconds of each device and adapter on its way."""
    link = cluster.link(sender, part.target)
    added: list[tuple[Hashable, float]] = [
        (("device out", sender), link.time(part.n_bytes)),
        (("device in", part.target), link.time(part.n_bytes)),
    ]
    if cluster.node_of(sender) != cluster.node_of(part.target):
        crossing = part.n_bytes / link.bandwidth_bytes_per_s
        out, into = cluster.adapter_of(sender), cluster.adapter_of(part.target)
        added += [(("adapter out", out), crossing), (("adapter in", into), crossing)]
        if isinstance(cluster, JoinedClusters):  # they have no levels
            return added
        for leaves, enters, bytes_per_s in cluster.uplinks(sender, part.target):
            crossing = part.n_bytes / bytes_per_s
            added += [(("uplink out", *leaves), crossing), (("uplink in", *enters), crossing)]
    return added


def _add(loads: Loads, added: Sequence[tuple[Hashable, float]], sign: float) -> None:
    for resource, seconds in added:
        loads[resource] = loads.get(resource, 0.0) + sign * seconds


def _bound(parts: Sequence[Candidate], cluster: Network) -> float:
    """A lower bound on the seconds of every choice.

    Each receiver takes every part over the fastest link that could bring it; the load of all senders is spread evenly;
    and an adapter that all candidates of a part share must carry that part.
    """
    into: Loads = {}
    total = 0.0
    for part in parts:
        quickest = [dict(_added(part, s, cluster)) for s in part.senders]
        for resource in {r for q in quickest for r in q if r[0] in ("device in", "adapter in")}:  # type: ignore[index]
            into[resource] = into.get(resource, 0.0) + min(q.get(resource, 0.0) for q in quickest)
        total += min(q["device out", s] for q, s in zip(quickest, part.senders, strict=True))
    senders = {s for part in parts for s in part.senders}
    adapters: Loads = {}
    for part in parts:
        homes = {cluster.adapter_of(s) for s in part.senders}
        if len(homes) == 1 and cluster.node_of(part.target) != cluster.node_of(part.senders[0]):
            (home,) = homes
            link = cluster.link(part.senders[0], part.target)
            adapters[home] = adapters.get(home, 0.0) + part.n_bytes / link.bandwidth_bytes_per_s
    return max([total / max(len(senders), 1), *into.values(), *adapters.values()], default=0.0)


def _search(
    parts: Sequence[Candidate], order: Sequence[int], cluster: Network, seconds: float, least: float
) -> tuple[list[int] | None, bool]:
    """Depth first, cutting what is no better than the best known; whether all was seen."""
    best: list[int] | None = None
    picked = [0] * len(parts)
    loads: Loads = {}
    seen = 0
    at_least = least * (1 + 1e-12)

    def go(depth: int) -> bool:
        nonlocal best, seconds, seen
        seen += 1
        if seen > SEARCHED:
            return False
        if depth == len(order):
            best, seconds = list(picked), max(loads.values())
            return True
        k = order[depth]
        for sender in parts[k].senders:
            added = _added(parts[k], sender, cluster)
            if max(loads.get(r, 0.0) + x for r, x in added) < seconds * (1 - 1e-12):
                picked[k] = sender
                _add(loads, added, 1.0)
                whole = go(depth + 1)
                _add(loads, added, -1.0)
                if not whole:
                    return False
                if seconds <= at_least:
                    return True
        return True

    complete = go(0)
    return best, complete
