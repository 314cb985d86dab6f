"""`simulate`: many training apps on one cluster under a policy."""

from __future__ import annotations

from typing import Literal

from ...errors import InputError
from .policy.contract import Policy
from .result.columns import SharingResult
from .world import SharingWorld

__all__ = ["simulate"]


def simulate(
    world: SharingWorld, policy: Policy, *, engine: Literal["auto", "compiled", "simpy"] = "auto"
) -> SharingResult:
    """Simulate a shared cluster.

    Parameters
    ----------
    world : SharingWorld
        Cluster, apps, leases, what fails.
    policy : Policy
        Decides which app gets which GPUs.
    engine : {"auto", "compiled", "simpy"}
        The simulation engine. Both give the same starts, finishes and grants; ``auto`` takes the compiled one if the
        policy has a compiled form.

    Raises
    ------
    InputError
        If the engine is unknown or the policy has no compiled form, the world is too long for its leases (see
        `SharingWorld.check_leases`), or an app never ends.
    """
    from .compiled.engine import has_compiled, simulate_compiled
    from .reference.engine import simulate_reference

    if engine not in ("auto", "compiled", "simpy"):
        raise InputError(f"simulate: engine: expected 'auto', 'compiled' or 'simpy' (got {engine!r})")
    if policy.preempts:
        world.check_leases()
    if engine == "compiled" or (engine == "auto" and has_compiled(policy)):
        return simulate_compiled(world, policy)
    return simulate_reference(world, policy)
