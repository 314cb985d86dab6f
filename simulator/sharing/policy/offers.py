"""Policies that compare offers: each app says what GPUs are worth to it, and the best takes them.

`BestOffer` offers all that an app can use, `LargestGain` (Optimus) the next ones only. And what all share that hand out
GPUs one by one: what an app would be given next, and its pace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..cluster import SharedCluster
from .agent import AppView, Shape
from .contract import grants
from .nearness import Chooser

__all__ = ["BestOffer", "LargestGain", "gain", "more", "speed"]


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

        def offer(pool: set[int], view: AppView, have: tuple[int, ...]) -> tuple[int, ...]:
            return more(cluster, pool, view, have, view.wanted - (len(have) - len(view.held)), self.chooser)

        def score(view: AppView, have: tuple[int, ...], mine: tuple[int, ...]) -> float:
            return gain(cluster, view, have, mine)

        return _by_offers(offered, apps, offer, score, once=False)


@dataclass(frozen=True, slots=True)
class BestOffer:
    """Each app says what the free GPUs are worth to it; the highest takes them, and the rest is offered again.

    Parameters
    ----------
    name : str
        What results call it.
    score : callable
        (cluster, view, all GPUs that it would have) -> score, largest first; ties to more GPUs, then the lower number.
    preempts : bool
        Whether GPUs are leased.
    chooser : Chooser
        Which GPUs an app is given.
    """

    name: str
    score: Callable[[SharedCluster, AppView, tuple[int, ...]], float]
    preempts: bool = True
    chooser: Chooser = field(default_factory=Chooser)

    def begin(self) -> None:
        """Forget: a world begins."""
        self.chooser.decisions = 0

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """See `Policy.assign`."""
        self.chooser.decisions += 1

        def offer(pool: set[int], view: AppView, have: tuple[int, ...]) -> tuple[int, ...]:
            return grants(cluster, pool, view, view.wanted, self.chooser)

        def score(view: AppView, have: tuple[int, ...], mine: tuple[int, ...]) -> float:
            return self.score(cluster, view, (*have, *mine))

        return _by_offers(offered, apps, offer, score, once=True)


def _by_offers(
    offered: Sequence[int],
    apps: Sequence[AppView],
    offer: Callable[[set[int], AppView, tuple[int, ...]], tuple[int, ...]],
    score: Callable[[AppView, tuple[int, ...], tuple[int, ...]], float],
    once: bool,
) -> dict[int, int]:
    """The best offer is taken, and those that it touched are made again, as long as there are GPUs and takers.

    Parameters
    ----------
    offer : callable
        (pool, view, GPUs that it has by then) -> GPUs for an app; none: it cannot use any, nor will it later, for the
        pool only shrinks.
    score : callable
        (view, GPUs that it has by then, GPUs of its offer) -> what that is worth.
    once : bool
        Whether an app takes one offer at most. Of offers that are worth the same the larger is then the better.
    """
    pool, given = set(offered), dict[int, int]()
    have = {v.index: v.held for v in apps}
    able = {v.index: v for v in apps if v.wanted > 0}
    offers: dict[int, tuple[float, tuple[int, ...]]] = {}
    while pool and able:
        for index, view in list(able.items()):
            if index not in offers:
                mine = offer(pool, view, have[index])
                if not mine:
                    del able[index]
                    continue
                offers[index] = score(view, have[index], mine), mine
        if not able:
            break
        # -i: the lowest number wins a tie.
        best = max(able, key=lambda i: (offers[i][0], len(offers[i][1]) if once else 0, -i))
        mine = offers[best][1]
        pool.difference_update(mine)
        given.update(dict.fromkeys(mine, best))
        have[best] = tuple(sorted((*have[best], *mine)))
        if once:
            del able[best]
        taken = set(mine)
        offers = {i: one for i, one in offers.items() if i != best and not taken.intersection(one[1])}
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
