"""`auction`: one partial-allocation auction (Themis §3.3.1, Pseudocode 1): proportional fairness, hidden payments.

Each app wins its proportionally fair share of n GPUs and keeps the part c of it; the rest is its hidden payment. The
paper does not define c·n for whole GPUs. `Rounding` says how many are kept:

``floor``
    ⌊c·n⌋. A payment is never less than Pseudocode 1 asks. An app that wins one GPU and pays anything loses it.
``nearest``
    c·n, rounded. Payments below half a GPU are forgiven, larger ones are rounded up.
``random``
    ⌊c·n⌋, and one more with the probability of the remainder, drawn by lot. The mean is c·n, which the proof that lying
    does not pay assumes (Cole et al. also randomise over goods that cannot be divided).

An app that could not run with what it would keep gets nothing, so that these GPUs go to others and do not stand idle.
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
"""c·n counts as a whole number of GPUs if it is this close to one: c is computed by an exponential and is not exact.
Far above its rounding errors, and far below any payment that matters."""


@dataclass(frozen=True, repr=False)
class Outcome(Shown):
    """The result of an auction.

    Parameters
    ----------
    allocation : Allocation
        The proportionally fair allocation, before payments.
    share : mapping of int to float
        c_i of each app: the part of its allocation that it keeps, 0 < c_i ≤ 1.
    gpus : mapping of int to tuple of int
        The GPUs that each app gets.
    leftover : tuple of int
        GPUs on offer that nobody gets: payments, and those that nobody bid for.
    gap : float
        The largest gap of any allocation that it rests on; 0 if all are proven optimal.
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
        GPUs on offer that each app has had so far. Among equally good allocations it is given these again, because
        moving an app costs a checkpoint and a restart.
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
    """Hold one auction of free GPUs.

    Parameters
    ----------
    cluster : SharedCluster
        The cluster.
    offered : sequence of int
        GPUs on offer.
    bids : sequence of Bid
        The bid of each app that takes part.
    had : Had, optional
        GPUs that apps have had so far, and those that they keep.
    payments : bool
        Whether apps pay; without payments each gets its proportionally fair share.
    rounding : {"floor", "nearest", "random"}
        How c_i · n is made a whole number of GPUs.
    seed, number : int
        Lots are hashes of these and of the app, so that a run can be repeated.
    steps : int
        Each search stops after so many steps; `gap` of the outcome bounds what it may have missed.

    Raises
    ------
    InputError
        If bids contradict the cluster or each other, a GPU on offer does not exist or is named twice, the rounding is
        unknown, or steps is less than 1.
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
    """c_i: the factor by which the others' product of 1/ρ shrinks because this app takes part.

    Apps that run in only one of the two allocations would make it 0 or infinite, so they are left out. A result above 1
    counts as 1.
    """
    lost = 0.0
    for other, log in without.items():
        if other != app and log > STARVED and with_app[other] > STARVED:
            lost += with_app[other] - log
    return min(1.0, math.exp(lost))


def kept_gpus(gpus: float, rounding: Rounding, bits: int) -> int:
    """Make c·n a whole number of GPUs; `bits` is the lot that ``random`` uses."""
    if rounding == "nearest":
        return math.floor(gpus + 0.5 + SLACK)
    whole = math.floor(gpus + SLACK)
    return whole + (rounding == "random" and gpus - whole > SLACK and share_of_lot(bits) < gpus - whole)


def _fewest_dropped(cluster: SharedCluster, gpus: Sequence[int], keep: int) -> tuple[int, ...]:
    """Keep so many of the GPUs, and give up those on the machine where the app has the fewest: its jobs stay close."""
    mine = list(gpus)
    while len(mine) > keep:
        counts = Counter(cluster.machine_of[mine].tolist())
        # ties: the machine, and then the GPU, with the highest number, as in the compiled kernel
        machine = min(counts, key=lambda m: (counts[m], -m))
        mine.remove(max(g for g in mine if cluster.machine_of[g] == machine))
    return tuple(sorted(mine))
