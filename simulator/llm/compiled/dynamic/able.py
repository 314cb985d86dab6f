"""What of a fleet that changes is compiled."""

from __future__ import annotations

from ...fleet.options import Fleet
from ...policy.vllm_v1 import V1Scheduler
from ...world import World
from ..contents import unlike
from ..fleet.routing import router_name
from .growth import METRICS

__all__ = ["why_not_dynamic"]


def why_not_dynamic(world: World, fleet: Fleet) -> str | None:
    """Why a fleet with these options, which the compiled engine knows by themselves, needs the reference; None if not.

    Parameters
    ----------
    world : World
        What is to be simulated.
    fleet : Fleet
        Its options.
    """
    if fleet.pools is not None:
        return "pools are not compiled"
    if world.policy.scheduler is not V1Scheduler:
        return "faults and autoscaling are compiled for the policy 'vllm-v1' only"
    if any(rule.scaler is not None for rule in fleet.scaling):
        return "a scaler of your own is not compiled"
    if any(rule.metric not in METRICS for rule in fleet.scaling):
        return "scaling by a metric of your own is not compiled"
    name = router_name(world.router)
    if name is None:
        return f"router {fleet.router!r} is not compiled"
    hashes = name == "prefix_affinity" or world.config.enable_prefix_caching
    return unlike(world.trace) if hashes else None
