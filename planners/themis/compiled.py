"""`simulate_themis`: Themis in the compiled engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...simulator.sharing.world import SharingWorld

if TYPE_CHECKING:
    from .policy import Themis

__all__ = ["simulate_themis"]


def simulate_themis(world: SharingWorld, policy: Themis, out: np.ndarray) -> tuple[Any, ...]:
    """Run the compiled event loop; what `simulator.sharing.compiled` makes a result of."""
    from ...simulator.sharing.arrays import cluster_arrays, failure_events, first_state, world_arrays
    from .allocation import STATES
    from .auction import ROUNDINGS
    from .kernels_rounds import Memory, Rules, run_themis

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
    answer = run_themis(
        cluster_arrays(cluster), world_arrays(world), first_state(world), rules, memory, failure_events(world),
        world.horizon_s, out,
    )  # fmt: skip
    policy.auctions, policy.gap = int(memory.auctions[0]), float(memory.gap[0])
    return answer
