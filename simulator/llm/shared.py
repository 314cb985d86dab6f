"""`simulate_shared`: the door of several language models whose engines share devices.

The SimPy reference is `turns`, which says how devices are shared; its compiled form is `compiled.shared`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...errors import InputError
from ...seeds import generator
from .policy.catalogue import policy_named
from .policy.request import LLMRequest
from .policy.router import router_named
from .result.columns import LLMResult
from .simulate import ENGINES, WORTH_TOKENS, dropped_rows
from .turns import Outcome, SharedEngine, Tenant, run_turns
from .workload.requests import LLMTrace
from .world import World

__all__ = ["SharedEngine", "simulate_shared"]


def simulate_shared(
    requests: Mapping[str, LLMTrace | Iterable[LLMRequest]],
    engines: Sequence[SharedEngine],
    *,
    router: str = "round_robin",
    until: float | None = None,
    too_long: str = "error",
    seed: int = 0,
    engine: str = "auto",
) -> dict[str, LLMResult]:
    """Simulate several models on engines that share devices.

    An engine that has its devices alone and no pipeline gives the same result as `simulate_llm`, to the last bit.

    Parameters
    ----------
    requests : mapping of str to LLMTrace
        Model -> its requests.
    engines : sequence of SharedEngine
        The engines; at least one for each model.
    router : str
        How one of the batches in flight of a model's engines is chosen for a request: a name of `ROUTERS`.
    until : float, optional
        Stop at this time, seconds.
    too_long : {"error", "ignore"}
        See `simulate_llm`.
    seed : int
        Seed of the routers' streams.
    engine : {"auto", "fast", "compiled", "simpy"}
        Which simulation engine computes the result, as in `simulate_llm`: all give the same, and `LLMResult.made_by`
        says which one it was.

    Returns
    -------
    dict of str to LLMResult
        Model -> the outcome of its requests. Engines are numbered in the order of `engines`, batch by batch.

    Raises
    ------
    InputError
        On a model without an engine, engines of one group with different numbers of stages, a request that cannot
        run, or what the compiled engine, asked for, cannot do.
    """
    if engine not in ENGINES:
        raise InputError(f"engine: unknown engine {engine!r}; expected one of {', '.join(ENGINES)}")
    depth: dict[Any, int] = {}
    for told in engines:
        if depth.setdefault(told.group, told.stages) != told.stages:
            raise InputError(
                f"simulate_shared: engines on {told.group} have {depth[told.group]} and {told.stages} stages; a group "
                "has one number of stages"
            )
    tenants: list[Tenant] = []
    for model, asked in requests.items():
        trace, mine = LLMTrace.of(asked), tuple(e for e in engines if e.model == model)
        if not mine:
            raise InputError(f"simulate_shared: no engine serves {model!r}")
        stream = ("llm", "router") if len(requests) == 1 else ("llm", "router", model)
        dropped = frozenset[int]()
        for told in mine:
            try:
                dropped |= dropped_rows(trace, policy_named(told.policy), told.config, strict=too_long == "error")
            except InputError as error:
                raise InputError(f"{model}: {error}") from None
        world = World(
            trace, policy_named(mine[0].policy), mine[0].config, mine[0].cost, None, sum(e.stages for e in mine),
            router_named(router, generator(seed, *stream)), None, False, dropped,
        )  # fmt: skip
        tenants.append(Tenant(model, world, mine))
    outcomes, made_by = _run(tenants, router, until, engine)
    return {
        tenant.name: LLMResult(
            trace=tenant.world.trace,
            arrival=records.arrival,
            **records.columns(),
            iterations=iterations,
            runs=runs,
            policy=tenant.engines[0].policy,
            made_by=made_by,
        )
        for tenant, (records, iterations, runs) in zip(tenants, outcomes, strict=True)
    }


def _run(tenants: list[Tenant], router: str, until: float | None, engine: str) -> tuple[list[Outcome], str]:
    """What the engine that was asked for, or that pays off, makes of it; and its name."""
    tokens = sum(int(tenant.world.trace.output_tokens.sum()) for tenant in tenants)
    if tenants and (engine in ("compiled", "fast") or (engine == "auto" and tokens >= WORTH_TOKENS)):
        from .compiled.engine import NotCompiled
        from .compiled.shared.able import why_not_shared
        from .compiled.shared.run import run_shared

        why = why_not_shared(tenants, router)
        if why is None:
            try:
                return run_shared(tenants, until), "compiled"
            except NotCompiled as stopped:
                why = str(stopped)
        if engine == "compiled":
            raise InputError(f"engine: compiled: {why}; pass engine='auto' or 'simpy'")
    return run_turns(tenants, until), "reference"
