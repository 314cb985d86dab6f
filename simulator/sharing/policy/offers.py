"""Policies that compare offers: each app says what GPUs are worth to it, and the best takes them.

`BestOffer` offers all that an app can use, `LargestGain` (Optimus) the next ones only. And what all share that hand out
GPUs one by one: what an app would be given next, and its pace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..cluster import SharedCluster
from .agent import AppView, Shape
from .contract import grants
from .lots import lot
from .nearness import Chooser

__all__ = ["TIES", "BestOffer", "LargestGain", "Ties", "gain", "more", "speed"]

Ties = Literal["lot", "first"]
"""Who wins of apps whose offers are worth the same. ``lot``: a lot, drawn anew in each decision, so that nobody
starves. ``first``: the lower number, which arrived earlier. Neither the papers nor Themis' text say."""

TIES: tuple[Ties, ...] = ("lot", "first")


@dataclass(frozen=True, slots=True)
class LargestGain:
    """GPUs one by one (as many at once as a gang needs to start), each to the app that gains most by it (Themis, §6.1).

    The gain is new throughput over old, with the very GPUs that the app would be given next: their distance to those
    that it has slows it down as it believes, so a GPU in another rack is worth less than one beside them. Of several at
    once each counts with its share. Infinite for the first.

    Parameters
    ----------
    name : str
        What results call it.
    preempts : bool
        Whether GPUs are leased.
    chooser : Chooser
        Which GPUs an app is given.
    ties : {"lot", "first"}
        Who wins of those that gain the same.
    once : bool
        Whether an app is asked once in a decision, for its gain by all that it can use of what is on offer, and takes
        them at once, as `BestOffer` has it. By default GPUs go one by one, as Optimus' own greedy rule has it. Themis'
        text can be read either way: of SRSF alone it says "one GPU at a time".
    """

    name: str
    preempts: bool = True
    chooser: Chooser = field(default_factory=Chooser)
    ties: Ties = "lot"
    once: bool = False

    def begin(self) -> None:
        """Forget: a world begins."""
        self.chooser.decisions = 0

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """See `Policy.assign`."""
        self.chooser.decisions += 1

        def offer(pool: set[int], view: AppView, have: tuple[int, ...]) -> tuple[int, ...]:
            if self.once:
                return grants(cluster, pool, view, view.wanted, self.chooser)
            return more(cluster, pool, view, have, view.wanted - (len(have) - len(view.held)), self.chooser)

        def score(view: AppView, have: tuple[int, ...], mine: tuple[int, ...]) -> float:
            return gain(cluster, view, have, mine, each=not self.once)

        return _by_offers(offered, apps, offer, score, _ranks(cluster, apps, self.chooser, self.ties), once=self.once)


@dataclass(frozen=True, slots=True)
class BestOffer:
    """Each app says what the free GPUs are worth to it; the highest takes them, and the rest is offered again.

    Parameters
    ----------
    name : str
        What results call it.
    score : callable
        (cluster, view, all GPUs that it would have) -> score, largest first.
    preempts : bool
        Whether GPUs are leased.
    chooser : Chooser
        Which GPUs an app is given.
    ties : {"lot", "first"}
        Who wins of those that score the same.
    migrates : bool
        Whether an app gives up GPUs whose lease is over for others that score higher, instead of taking its own again.
    """

    name: str
    score: Callable[[SharedCluster, AppView, tuple[int, ...]], float]
    preempts: bool = True
    chooser: Chooser = field(default_factory=Chooser)
    ties: Ties = "lot"
    migrates: bool = False

    def begin(self) -> None:
        """Forget: a world begins."""
        self.chooser.decisions = 0

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """See `Policy.assign`."""
        self.chooser.decisions += 1

        def offer(pool: set[int], view: AppView, have: tuple[int, ...]) -> tuple[int, ...]:
            mine = grants(cluster, pool, view, view.wanted, self.chooser)
            if self.migrates and view.lapsed and mine:
                elsewhere = grants(cluster, pool, replace(view, lapsed=()), view.wanted, self.chooser)
                if score(view, have, elsewhere) > score(view, have, mine):
                    return elsewhere
            return mine

        def score(view: AppView, have: tuple[int, ...], mine: tuple[int, ...]) -> float:
            return self.score(cluster, view, (*have, *mine))

        return _by_offers(offered, apps, offer, score, _ranks(cluster, apps, self.chooser, self.ties), once=True)


def _ranks(cluster: SharedCluster, apps: Sequence[AppView], chooser: Chooser, ties: Ties) -> Mapping[int, int]:
    """App -> its rank where offers are worth the same, smallest first. Apps' lots are numbered after those of GPUs."""
    if ties == "first":
        return {v.index: v.index for v in apps}
    return {v.index: lot(chooser.seed, chooser.decisions, cluster.n_gpus + v.index) for v in apps}


def _by_offers(
    offered: Sequence[int],
    apps: Sequence[AppView],
    offer: Callable[[set[int], AppView, tuple[int, ...]], tuple[int, ...]],
    score: Callable[[AppView, tuple[int, ...], tuple[int, ...]], float],
    ranks: Mapping[int, int],
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
    ranks : mapping
        App -> its rank among offers that are worth the same, smallest first; of equals the lower number.
    once : bool
        Whether an app takes one offer at most.
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
        best = max(able, key=lambda i: (offers[i][0], -ranks[i], -i))
        mine = offers[best][1]
        pool.difference_update(mine)
        given.update(dict.fromkeys(mine, best))
        have[best] = tuple(sorted((*have[best], *mine)))
        if once:
            del able[best]
        taken = set(mine)
        offers = {i: one for i, one in offers.items() if i != best and not taken.intersection(one[1])}
    return given


def gain(
    cluster: SharedCluster, view: AppView, have: tuple[int, ...], mine: tuple[int, ...], *, each: bool = True
) -> float:
    """New throughput over old by these GPUs more, or by each of them; infinite where there is none yet."""
    before = speed(cluster, view, have)
    if before <= 0:
        return math.inf
    ratio = speed(cluster, view, (*have, *mine)) / before
    return 1.0 + (ratio - 1.0) / len(mine) if each else ratio


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
