"""`simulate_compiled`: the numba engine: the same answers as the SimPy model, no Python object per event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import InputError
from ..policy.contract import Policy
from ..policy.nearness import Chooser
from ..result.columns import AppRecord, SharingResult
from ..world import SharingWorld

if TYPE_CHECKING:
    from .run import Run

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
    if not has_compiled(policy):
        raise InputError(f"policy {policy.name!r} has no compiled form; use engine='simpy'")
    own = getattr(policy, "run_compiled", None)
    run = own(world) if own is not None else _baseline(world, policy)
    out, ended, grants = run.out, run.ended, run.grants()
    records = {
        i: AppRecord(i, row[0], row[1], bool(row[2]), row[3], row[4], tuple(int(n) for n in row[5:9]))
        for i, row in enumerate(out.tolist())
        if ended[i]
    }
    return SharingResult.of(world, policy.name, records, grants)


def _baseline(world: SharingWorld, policy: Policy) -> Run:
    """A world under one of the shipped policies."""
    from ..policy.baselines import SHIPPED, draws_ties, window_s
    from ..policy.offers import LargestGain
    from .policies import CODES, GAIN_ONCE, assign
    from .run import Run

    chooser = policy.chooser if isinstance(policy, SHIPPED) else Chooser()
    once = isinstance(policy, LargestGain) and policy.once
    code, lease_s = GAIN_ONCE if once else CODES[policy.name], window_s(policy, world.lease_s)
    blind = chooser.placement == "blind"
    ties, run = draws_ties(policy), Run(world, policy.preempts)
    for decision, (now, count) in enumerate(run, 1):
        assign(run.c, run.w, run.s, run.p, code, now, count, lease_s, blind, ties, chooser.seed, decision)
    return run
