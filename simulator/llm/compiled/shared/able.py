"""Which engines on shared devices the compiled loop can simulate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .....profiles.llm.cost.iteration import TableCost
from ...policy.catalogue import policy_named
from ...policy.sarathi import SarathiScheduler
from ...policy.vllm_v1 import V1Scheduler
from ..contents import unlike
from ..fleet.routing import router_name
from ..known import unknown
from ..prices import why_no_price

if TYPE_CHECKING:
    from ...turns import SharedEngine, Tenant

__all__ = ["why_not_shared"]


def why_not_shared(tenants: Sequence[Tenant], router: str) -> str | None:
    """Why these models need the reference; None where the compiled loop gives the same answers.

    Parameters
    ----------
    tenants : sequence of Tenant
        The models: requests and engines.
    router : str
        Name of their router.
    """
    for tenant in tenants:
        for told in tenant.engines:
            if (why := _why_not_engine(tenant, told)) is not None:
                return why
        if (why := _why_not_model(tenant, router)) is not None:
            return why
    return None


def _why_not_engine(tenant: Tenant, told: SharedEngine) -> str | None:
    """Why one engine needs the reference."""
    trace = tenant.world.trace
    if (why := why_no_price(told.cost)) is not None:
        return why
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    if isinstance(told.cost, TableCost) and _ends(told.cost) and longest > told.cost.model.window:
        return "a cost whose model's window is shorter than requests are is not compiled where devices are shared"
    if (name := unknown(told.config)) is not None:
        return f"{name} is not compiled"
    if policy_named(told.policy).scheduler not in (V1Scheduler, SarathiScheduler):
        return f"policy {told.policy!r} is not compiled where devices are shared"
    return None


def _ends(cost: TableCost) -> bool:
    """Whether the cost has no times of iterations beyond its model's window."""
    return cost.model.window > 0 and (cost.model.chunked or cost.kernels.mixed() is not None)


def _why_not_model(tenant: Tenant, router: str) -> str | None:
    """Why one model's requests, or its engines together, need the reference."""
    world = tenant.world
    if (name := unknown(world.trace)) is not None:
        return f"{name} is not compiled"
    if world.engines > 1 and router_name(world.router) is None:
        return f"router {router!r} over several engines is not compiled"
    caching = [e.config for e in tenant.engines if getattr(e.config, "enable_prefix_caching", False)]
    if len({config.block_size for config in caching}) > 1:
        return "prefix caching in blocks of several sizes is not compiled"
    return unlike(world.trace) if caching or (world.engines > 1 and router == "prefix_affinity") else None
