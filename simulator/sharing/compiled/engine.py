"""`simulate_compiled`: the numba engine: the same answers as the SimPy model, no Python object per event."""

from __future__ import annotations

import numpy as np

from ....errors import InputError
from ..policy.contract import Policy
from ..policy.nearness import Chooser
from ..result.columns import AppRecord, SharingResult
from ..result.grants import Grants
from ..world import SharingWorld

__all__ = ["has_compiled", "simulate_compiled"]


def has_compiled(policy: Policy) -> bool:
    """Whether a policy has a compiled form: the shipped baselines have, and those that bring one (`run_compiled`)."""
    from ..policy.baselines import is_baseline

    return hasattr(policy, "run_compiled") or is_baseline(policy)


def simulate_compiled(world: SharingWorld, policy: Policy) -> SharingResult:
    """Simulate apps on a shared cluster.

    Raises
    ------
    InputError
        If the policy has no compiled form, or an app has not ended when nothing can happen any more, or at the
        world's `horizon_s`.
    """
    from ..policy.baselines import SHIPPED, window_s
    from .arrays import cluster_arrays, failure_events, first_state, world_arrays
    from .loop import run
    from .policies import CODES

    if not has_compiled(policy):
        raise InputError(f"policy {policy.name!r} has no compiled form; use engine='simpy'")
    out = np.full((len(world.apps), 9), np.nan)
    own = getattr(policy, "run_compiled", None)
    if own is not None:
        seconds, apps, first, gpus, ended = own(world, out)
    else:
        chooser = policy.chooser if isinstance(policy, SHIPPED) else Chooser()
        seconds, apps, first, gpus, ended = run(
            cluster_arrays(world.cluster), world_arrays(world), first_state(world), CODES[policy.name],
            policy.preempts, window_s(policy, world.lease_s), chooser.placement == "blind", chooser.seed,
            failure_events(world), world.horizon_s, out,
        )  # fmt: skip
    records = {
        i: AppRecord(i, row[0], row[1], bool(row[2]), row[3], row[4], tuple(int(n) for n in row[5:9]))
        for i, row in enumerate(out.tolist())
        if ended[i]
    }
    return SharingResult.of(world, policy.name, records, Grants(seconds, apps, first, gpus))
