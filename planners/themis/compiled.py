"""`simulate_themis`: Themis in the compiled engine.

The loop itself is not compiled: numba would compile everything that is called once more with it, which took longer than
what it saves. A round calls six kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...simulator.sharing.world import SharingWorld

if TYPE_CHECKING:
    from .kernels.rounds import Memory, Rules
    from .policy import Themis

__all__ = ["simulate_themis"]


def simulate_themis(world: SharingWorld, policy: Themis, out: np.ndarray) -> tuple[Any, ...]:
    """Run the compiled event loop; what `simulator.sharing.compiled.engine` makes a result of."""
    from ...simulator.sharing.compiled.arrays import cluster_arrays, failure_events, first_state, world_arrays
    from .allocation import STATES
    from .auction import ROUNDINGS
    from .kernels.rounds import Memory, Rules

    cluster, apps = world.cluster, len(world.apps)
    racks = np.unique([m.rack for m in cluster.machines], return_inverse=True)[1].reshape(-1)  # by rank
    rules = Rules(
        float(policy.fairness), policy.payments, ROUNDINGS.index(policy.rounding), policy.visibility == "cached",
        policy.leftovers == "idle", policy.seed, policy.steps, int(racks.max()) + 1,
    )  # fmt: skip
    memory = Memory(
        said=np.empty((apps, cluster.n_gpus + 1)),
        kept=np.full(apps, -1, dtype=np.int64),
        rack=racks.astype(np.int64),
        seen_key=np.zeros(STATES, dtype=np.uint64),
        seen_value=np.zeros(STATES),
        seen_in=np.zeros(STATES, dtype=np.int64),
        searches=np.zeros(1, dtype=np.int64),
        auctions=np.zeros(1, dtype=np.int64),
        gap=np.zeros(1),
    )
    answer = _run(
        cluster_arrays(cluster), world_arrays(world), first_state(world), rules, memory, failure_events(world),
        world.horizon_s, out,
    )  # fmt: skip
    policy.auctions, policy.gap = int(memory.auctions[0]), float(memory.gap[0])
    return answer


def _run(
    c: Any, w: Any, s: Any, rules: Rules, memory: Memory, events: np.ndarray, max_s: float, out: np.ndarray
) -> tuple[Any, ...]:
    """Simulate: see `kernels_engine.run`."""
    from ...simulator.sharing.compiled.loop import advance, book, settle
    from .kernels.rounds import award, bids_of

    size, n_apps = s.owner.shape[0], w.arrival.shape[0]
    ended, changed = np.zeros(n_apps, dtype=np.bool_), np.zeros(n_apps, dtype=np.bool_)
    offered, given = np.zeros(size, dtype=np.bool_), np.full(size, -1, dtype=np.int64)
    present, cursor = np.empty(n_apps, dtype=np.int64), np.zeros(4, dtype=np.int64)
    upcoming = np.full(1, w.arrival[0] if n_apps else np.inf)
    grants = book()
    while True:
        now, count = advance(c, w, s, events, max_s, out, ended, changed, cursor, upcoming, offered, present)
        if count < 0:
            break
        apps = present[:count]
        bids = bids_of(c, w, s, rules, memory, now, offered, apps, given)
        if bids[0].shape[0]:
            award(c, w, s, rules, memory, now, offered, given, bids, *_allocate(bids, rules, memory))
        grants = settle(c, w, s, True, now, apps, given, changed, cursor, grants)
    n = int(cursor[2])
    return grants[0][:n], grants[1][:n], grants[2][: n + 1], grants[3][: grants[2][n]], ended


def _allocate(bids: Any, rules: Rules, memory: Memory) -> tuple[Any, Any, Any]:
    """The best row of each app in the order in which they choose, where its groups are, and its c: what it keeps."""
    from .kernels.allocation import NOTHING, best_of, without_each
    from .kernels.auction import shares_kept
    from .kernels.prices import price_count, scarcities
    from .kernels.search import marks

    goods, order = bids[6], bids[7]
    scarce, mark = scarcities(goods), marks(goods)
    price, seen = np.zeros(price_count(goods, scarce)), (memory.seen_key, memory.seen_value, memory.seen_in)
    found, top, _, chosen, where = best_of(
        order, goods, scarce, price, mark, NOTHING, rules.limit, seen, memory.searches
    )
    gap, kept = top - found, np.ones(len(order))
    if rules.payments and len(order) > 1:
        without, gaps, _ = without_each(order, goods, scarce, price, mark, chosen, rules.limit, seen, memory.searches)
        gap, kept = max(gap, gaps.max()), shares_kept(goods.value, chosen, without)
    memory.gap[0] = max(memory.gap[0], gap)
    return chosen, where, kept
