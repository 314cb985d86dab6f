"""`auction`: one partial-allocation auction (Themis §3.3.1, Pseudocode 1): proportional fairness, hidden payments.

The paper's c·G is not defined for whole GPUs. What is kept of n GPUs, by `Rounding`:

``floor``
    ⌊c·n⌋: a payment is never less than what Pseudocode 1 asks. Whoever wins one GPU and pays anything pays all of it.
``nearest``
    c·n rounded: payments below half a GPU are forgiven, those above it are rounded up.
``random``
    ⌊c·n⌋, and one more with the probability of the rest, by a lot: c·n on average, which is what the proof that lying
    does not pay is about (Cole et al. let the mechanism throw dice for goods that cannot be divided).

An app that could not run with what it would keep keeps nothing: the GPUs go to others at once instead of standing idle.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...errors import InputError
from ...reprs import Shown
from ...simulator.sharing.cluster import SharedCluster
from .allocation import STEPS, Allocation, Market, Others
from .bids import STARVED, Bid, check_offered
from .lots import lot, share_of_lot
from .whereabouts import whereabouts

__all__ = ["Outcome", "Rounding", "auction", "kept_gpus", "kept_share"]

Rounding = Literal["floor", "nearest", "random"]
ROUNDINGS = ("floor", "nearest", "random")

SLACK = 1e-6
"""GPUs by which c·n may miss a whole number and still be it: c comes from exponentials."""


@dataclass(frozen=True, repr=False)
class Outcome(Shown):
    """What an auction came to.

    Parameters
    ----------
    allocation : Allocation
        The proportionally fair one.
    share : mapping of int to float
        c_i of each app: what it keeps of that, 0 < c_i ≤ 1.
    gpus : mapping of int to tuple of int
        What each app gets.
    leftover : tuple of int
        GPUs on offer that nobody gets: payments, and what nobody bid for.
    gap : float
        The largest gap of any allocation that went into it; 0 where all are proven the best.
    """

    allocation: Allocation
    share: Mapping[int, float]
    gpus: Mapping[int, tuple[int, ...]]
    leftover: tuple[int, ...]
    gap: float


@dataclass(frozen=True, slots=True, repr=False)
class Had(Shown):
    """GPUs that apps have had before an auction.

    Parameters
    ----------
    before : mapping of int to sequence of int
        GPUs on offer that an app has had so far: of allocations that are as good it is given those that it has.
    kept : mapping of int to sequence of int
        GPUs of each app that are not on offer.
    """

    before: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])
    kept: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])


def auction(
    cluster: SharedCluster, offered: Sequence[int], bids: Sequence[Bid], *,
    had: Had | None = None, payments: bool = True, rounding: Rounding = "random", seed: int = 0, number: int = 0,
    steps: int = STEPS,
) -> Outcome:  # fmt: skip
    """Auction GPUs.

    Parameters
    ----------
    cluster : SharedCluster
        The cluster.
    offered : sequence of int
        GPUs on offer.
    bids : sequence of Bid
        A table of each app that takes part.
    had : Had, optional
        GPUs that apps have had so far, and those that they keep.
    payments : bool
        Whether apps pay; without, each gets its proportionally fair share.
    rounding : {"floor", "nearest", "random"}
        What c_i of n GPUs are.
    seed, number : int
        Lots are hashes of these and the app.
    steps : int
        After so many a search stops; what it may have missed is the outcome's `gap`.

    Raises
    ------
    InputError
        On bids that contradict the cluster or each other, GPUs on offer that are not there or stand twice, an unknown
        rounding, or no steps.
    """
    if rounding not in ROUNDINGS:
        raise InputError(f"auction: rounding: expected 'floor', 'nearest' or 'random' (got {rounding!r})")
    if steps < 1:
        raise InputError(f"auction: steps: expected an integer >= 1 (got {steps})")
    check_offered(cluster, offered)
    market = Market(cluster, tuple(offered), tuple(bids))
    if payments and len(bids) > 1:
        allocation, others = market.with_and_without(steps)
    else:
        allocation, others = market.best(steps=steps), dict[int, Others]()
    held = had or Had()
    share, with_all = dict.fromkeys(allocation.rows, 1.0), allocation.logs()
    for app, (logs, _) in others.items():
        share[app] = kept_share(app, with_all, logs)
    gap = max(allocation.gap, *(o.gap for o in others.values()), 0.0)
    least = {bid.app: bid.least for bid in bids}
    given = whereabouts(cluster, offered, allocation, held.before, held.kept)
    keeps: dict[int, tuple[int, ...]] = {}
    for app, gpus in given.items():
        n = kept_gpus(share[app] * len(gpus), rounding, lot(seed, number, app))
        keeps[app] = _fewest_dropped(cluster, gpus, n if n >= least[app] else 0)
    taken = {g for gpus in keeps.values() for g in gpus}
    return Outcome(allocation, share, keeps, tuple(g for g in sorted(offered) if g not in taken), gap)


def kept_share(app: int, with_app: Mapping[int, float], without: Mapping[int, float]) -> float:
    """c_i: by what factor the others' product of 1/ρ is smaller because the app is there.

    Others that run in one of the two allocations only would make it 0 or infinite; they are left out, and more than 1
    counts as 1.
    """
    lost = 0.0
    for other, log in without.items():
        if other != app and log > STARVED and with_app[other] > STARVED:
            lost += with_app[other] - log
    return min(1.0, math.exp(lost))


def kept_gpus(gpus: float, rounding: Rounding, bits: int) -> int:
    """Whole GPUs of c·n; `bits` are the lot that ``random`` draws."""
    if rounding == "nearest":
        return math.floor(gpus + 0.5 + SLACK)
    whole = math.floor(gpus + SLACK)
    return whole + (rounding == "random" and gpus - whole > SLACK and share_of_lot(bits) < gpus - whole)


def _fewest_dropped(cluster: SharedCluster, gpus: Sequence[int], keep: int) -> tuple[int, ...]:
    """`keep` of them; those go first that stand on the machine where there are the fewest."""
    mine = list(gpus)
    while len(mine) > keep:
        counts = Counter(cluster.machine_of[mine].tolist())
        machine = min(counts, key=lambda m: (counts[m], -m))
        mine.remove(max(g for g in mine if cluster.machine_of[g] == machine))
    return tuple(sorted(mine))
