"""Optimus' rule; and what all share that hand out GPUs one by one: what an app would be given next, and its pace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .cluster import SharedCluster
from .policy.agent import AppView, Shape
from .policy.nearness import Chooser

__all__ = ["LargestGain", "gain", "more", "speed"]


@dataclass(frozen=True, slots=True)
class LargestGain:
    """GPUs one by one (as many at once as a gang needs to start), each to the app that gains most by it (Themis, §6.1).

    The gain is new throughput over old, with the very GPUs that the app would be given next: their distance to those
    that it has slows it down as it believes, so a GPU in another rack is worth less than one beside them. Of several at
    once each counts with its share. Infinite for the first; ties go to the lower number.

    Parameters
    ----------
    name : str
        What results call it.
    preempts : bool
        Whether GPUs are leased.
    chooser : Chooser
        Which GPUs an app is given.
    """

    name: str
    preempts: bool = True
    chooser: Chooser = field(default_factory=Chooser)

    def begin(self) -> None:
        """Forget: a world begins."""
        self.chooser.decisions = 0

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """See `Policy.assign`."""
        self.chooser.decisions += 1
        pool, given = set(offered), dict[int, int]()
        have = {v.index: v.held for v in apps}
        able = {v.index: v for v in apps if v.wanted > 0}
        offers: dict[int, tuple[float, tuple[int, ...]]] = {}
        while pool and able:
            for index, view in list(able.items()):
                if index not in offers:
                    room = view.wanted - (len(have[index]) - len(view.held))
                    mine = more(cluster, pool, view, have[index], room, self.chooser)
                    if not mine:
                        del able[index]
                        continue
                    offers[index] = gain(cluster, view, have[index], mine), mine
            if not able:
                break
            best = max(able, key=lambda i: (offers[i][0], -i))
            mine = offers[best][1]
            pool.difference_update(mine)
            given.update(dict.fromkeys(mine, best))
            have[best] = tuple(sorted((*have[best], *mine)))
            taken = set(mine)
            offers = {i: offer for i, offer in offers.items() if i != best and not taken.intersection(offer[1])}
        return given


def gain(cluster: SharedCluster, view: AppView, have: tuple[int, ...], mine: tuple[int, ...]) -> float:
    """New throughput over old by each of these GPUs more; infinite where there is none yet."""
    before = speed(cluster, view, have)
    return 1.0 + (speed(cluster, view, (*have, *mine)) / before - 1.0) / len(mine) if before > 0 else math.inf


def speed(cluster: SharedCluster, view: AppView, gpus: Sequence[int]) -> float:
    """GPU seconds of work that the app's phase does per second."""
    shape = Shape.of(cluster, gpus) if gpus else Shape(())
    return view.speed(shape)


def more(
    cluster: SharedCluster, pool: set[int], view: AppView, have: tuple[int, ...], room: int, chooser: Chooser
) -> tuple[int, ...]:
    """The fewest GPUs more of which an app can use all, one or a gang, beside those that it has: its own of before
    first; none if it has no room for them, or the pool has fewer."""
    has = len(have)
    n = next((n for n in range(1, room + 1) if view.usable(has + n) == has + n), 0)
    if n < 1 or len(pool) < n:
        return ()
    kept = tuple(g for g in view.lapsed if g in pool)[:n]
    return (*kept, *chooser.take(cluster, pool.difference(kept), n - len(kept), (*have, *kept)))
