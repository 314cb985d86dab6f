"""`Fleet`: the checked options of a simulation with pools, faults or autoscaling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ....errors import InputError
from ....profiles.llm.iteration import IterationCost
from ..policy.catalogue import Policy, policy_config
from ..policy.request import LLMRequest
from ..policy.router import ROUTERS
from ..workload.requests import LLMTrace
from .faults import Faults
from .handoff import halves
from .pools import Pools
from .scaling import Autoscaling

if TYPE_CHECKING:
    from ..options import SimulateOptions

__all__ = ["Fleet", "fleet_of"]

SPLIT = "vllm-v1"
"""The policy that pools can cut in two."""


@dataclass(frozen=True)
class Fleet:
    """Options of a world of several engines.

    Parameters
    ----------
    pools : Pools or None
        Prefill and decode apart.
    faults : Faults or None
        Engines that die.
    scaling : tuple of Autoscaling
        Engines that come and go.
    decode : Policy or None
        Policy of the decode engines.
    decode_config : dataclass or None
        Its options.
    decode_cost : IterationCost or None
        Seconds of their iterations.
    token_bytes : int
        Bytes of keys and values of a token.
    router : str
        Name of the router of the engines where requests begin.
    seed : int
        Seed of routers and faults.
    """

    pools: Pools | None
    faults: Faults | None
    scaling: tuple[Autoscaling, ...]
    decode: Policy | None
    decode_config: Any
    decode_cost: IterationCost | None
    token_bytes: int
    router: str
    seed: int

    @property
    def roles(self) -> tuple[str, ...]:
        """Kinds of engines, those where requests begin first."""
        return ("both",) if self.pools is None else ("prefill", "decode")


def fleet_of(
    trace: LLMTrace,
    policy: Policy,
    options: Any,
    cost: IterationCost,
    engines: int,
    *,
    name: str,
    asked: SimulateOptions,
    router: str,
    seed: int,
) -> tuple[Fleet | None, Policy]:
    """The options of a fleet, and the policy by which its requests are checked and begin; None for plain engines.

    Raises
    ------
    InputError
        Where options do not go together.
    """
    pools, faults = asked.pools, asked.faults
    several: Any = () if asked.scaling is None else asked.scaling
    rules = tuple(cast("Iterable[Any]", several)) if isinstance(several, Iterable) else (several,)
    _check_scaling(rules, pools, engines)
    _check_faults(faults, pools, engines, trace, bool(rules))
    if pools is None:
        if faults is None and not rules:
            return None, policy
        return Fleet(None, faults, rules, None, None, None, 0, router, seed), policy
    if name != SPLIT:
        raise InputError(f"pools: policy {name!r} cannot be cut in two; expected {SPLIT!r}")
    if engines != 1:
        raise InputError(f"engines: pools say how many, {pools.prefill} and {pools.decode} (got engines={engines})")
    if pools.decode_router not in ROUTERS:
        raise InputError(
            f"pools: decode_router: unknown router {pools.decode_router!r}; expected one of {', '.join(ROUTERS)}"
        )
    there = options if pools.decode_config is None else policy_config(policy.config, pools.decode_config)
    if there.block_size != options.block_size:
        raise InputError(
            f"pools: block_size: {options.block_size} on prefill and {there.block_size} on decode engines; blocks are "
            "sent as they are, give both the same"
        )
    if options.async_scheduling or there.async_scheduling:
        raise InputError("pools: asynchronous scheduling is not modelled across a hand-off; set it to False")
    for where, config in (("config", options), ("pools: decode_config", there)):
        if config.groups > 1 or config.window_groups:
            raise InputError(f"{where}: layers in several groups, or with windows, are not modelled across a hand-off")
        if config.pipeline_parallel_size > 1:
            raise InputError(f"{where}: pipeline_parallel_size: not modelled across a hand-off; leave it 1")
    policy.scheduler(there)
    first, second = halves(policy)

    def cannot(config: Any, request: LLMRequest) -> str | None:
        return first.fatal(config, request) or policy.cannot(there, request)

    def fatal(config: Any, request: LLMRequest) -> str | None:
        return first.fatal(config, request) or policy.fatal(there, request)

    fleet = Fleet(pools, faults, rules, second, there, pools.decode_cost or cost, pools.token_bytes(cost), router, seed)
    return fleet, replace(first, cannot=cannot, fatal=fatal)


def _check_scaling(rules: tuple[Any, ...], pools: Pools | None, engines: int) -> None:
    seen: set[str] = set()
    for rule in rules:
        if not isinstance(rule, Autoscaling):
            raise InputError(f"scaling: expected Autoscaling (got {type(rule).__name__})")
        there = {"both": engines} if pools is None else {"prefill": pools.prefill, "decode": pools.decode}
        if rule.role not in there:
            raise InputError(f"scaling: role: expected one of {', '.join(there)} here (got {rule.role!r})")
        if rule.role in seen:
            raise InputError(f"scaling: two for the role {rule.role!r}; give one")
        seen.add(rule.role)
        if not rule.min_engines <= there[rule.role] <= rule.max_engines:
            raise InputError(
                f"scaling: the simulation begins with {there[rule.role]} engines; expected {rule.min_engines} to "
                f"{rule.max_engines}"
            )


def _check_faults(faults: Any, pools: Pools | None, engines: int, trace: LLMTrace, grows: bool) -> None:
    if faults is None:
        return
    if not isinstance(faults, Faults):
        raise InputError(f"faults: expected Faults (got {type(faults).__name__})")
    there = engines if pools is None else pools.prefill + pools.decode
    for event in faults.events:
        if event.engine >= there and not grows:
            raise InputError(f"faults: engine {event.engine} does not exist; there are {there}, from 0 on")
    if faults.tokens == "keep" and trace.best_of is not None and bool((trace.best_of > 1).any()):
        raise InputError("faults: tokens: those of several sequences cannot be kept; use tokens='lose'")
