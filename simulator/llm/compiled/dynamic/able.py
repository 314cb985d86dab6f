"""What of a fleet that changes is compiled."""

from __future__ import annotations

import numpy as np

from ...fleet.options import Fleet
from ...policy.vllm_v1 import V1Scheduler
from ...world import World
from ..contents import unlike
from ..fleet.drafts import drafts_of
from ..fleet.routing import KINDS, router_name
from ..known import unknown
from ..prices import why_no_price
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
    if fleet.pools is not None and (why := _why_no_pools(world, fleet)) is not None:
        return why
    if fleet.pools is None and world.policy.scheduler is not V1Scheduler and drafts_of(world.policy) is None:
        return "faults and autoscaling are compiled for the policy 'vllm-v1' only"
    if any(rule.scaler is not None for rule in fleet.scaling):
        return "a scaler of your own is not compiled"
    if any(rule.metric not in METRICS for rule in fleet.scaling):
        return "scaling by a metric of your own is not compiled"
    name = router_name(world.router)
    if name is None:
        return f"router {fleet.router!r} is not compiled"
    hashes = name == "prefix_affinity" or world.config.enable_prefix_caching
    if fleet.pools is not None:
        hashes |= fleet.pools.decode_router == "prefix_affinity" or fleet.decode_config.enable_prefix_caching
    return unlike(world.trace) if hashes else None


def _why_no_pools(world: World, fleet: Fleet) -> str | None:
    """Why pools with these options need the reference; None if they do not."""
    assert fleet.pools is not None
    here, there = world.config, fleet.decode_config
    if (why := why_no_price(fleet.decode_cost)) is not None:
        return f"pools: decode_cost: {why}"
    if (name := unknown(there)) is not None:
        return f"pools: decode_config: {name} is not compiled"
    if fleet.pools.decode_router not in KINDS:
        return f"pools: decode_router {fleet.pools.decode_router!r} is not compiled"
    ends = np.minimum(world.trace.prompt_tokens + world.trace.output_tokens, there.max_model_len)
    if fleet.faults is not None and fleet.faults.tokens == "keep" and int(ends.max()) > here.max_model_len:
        return "tokens that are kept beyond the prefill engines' max_model_len are not compiled"
    return None
