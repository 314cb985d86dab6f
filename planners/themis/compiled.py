"""`simulate_themis`: Themis in the compiled engine, with three kernels for each round: bids, allocation, award."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...simulator.sharing.world import SharingWorld

if TYPE_CHECKING:
    from ...simulator.sharing.compiled.run import Run
    from .policy import Themis

__all__ = ["simulate_themis"]


def simulate_themis(world: SharingWorld, policy: Themis) -> Run:
    """Run the compiled event loop with Themis; `simulator.sharing.compiled.engine` turns the run into a result."""
    from ...simulator.sharing.compiled.record import Record
    from ...simulator.sharing.compiled.run import Run
    from .allocation import STATES
    from .auction import ROUNDINGS
    from .kernels.allocation import NOTHING, allocate
    from .kernels.prices import price_count
    from .kernels.rounds import Memory, Rules, award, bids_of

    cluster, apps = world.cluster, len(world.apps)
    racks = np.unique([m.rack for m in cluster.machines], return_inverse=True)[1].reshape(-1)  # by rank
    rules = Record(Rules(
        float(policy.fairness), bool(policy.payments), ROUNDINGS.index(policy.rounding), policy.visibility == "cached",
        policy.leftovers == "idle", int(policy.seed), int(policy.steps), int(racks.max()) + 1,
    ))  # fmt: skip
    said = Memory(
        said=np.empty((apps, cluster.n_gpus + 1)),
        kept=np.full(apps, -1, dtype=np.int64),
        rack=racks.astype(np.int64),
        auctions=np.zeros(1, dtype=np.int64),
    )
    memory = Record(said)
    seen = np.zeros(STATES, dtype=np.uint64), np.zeros(STATES), np.zeros(STATES, dtype=np.int64)
    searches, gap, limit = np.zeros(1, dtype=np.int64), 0.0, int(policy.steps)
    run = Run(world, policy.preempts)
    for now, count in run:
        bids, goods = bids_of(run.c, run.w, run.s, run.p, rules, memory, now, count)
        order = bids[-1]
        if order.shape[0] == 0:
            continue
        pays = policy.payments and order.shape[0] > 1
        found, top, _, chosen, where, without, gaps = allocate(
            order, Record(goods), np.zeros(price_count(goods)), NOTHING, limit, *seen, searches, pays
        )
        gap = max(gap, top - found, gaps.max(initial=0.0))
        award(run.c, run.w, run.s, run.p, rules, memory, now, bids, goods.value, chosen, where, without)
    policy.auctions, policy.gap = int(said.auctions[0]), float(gap)
    return run
