"""`simulate_plan`: score an LLM plan on requests. Each model gets the simulation that its deployments need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any, cast

from ....errors import InputError
from ....profiles.llm.cost.overheads import Overheads
from ....profiles.llm.iteration import IterationCost
from ....traces.trace import Trace
from ..memory.adapters import AdapterCost
from ..options import SimulateOptions
from ..policy.deal import dealt
from ..policy.request import LLMRequest
from ..result.columns import LLMResult
from ..result.front import seen_by_clients
from ..result.merged import Part, merged
from ..simulate import simulate_llm
from ..times import StepDraws
from ..workload.files import by_model
from ..workload.requests import LLMTrace
from .conditions import Conditions
from .costs import Tables, deployment_cost, drafts_of, flight_options, kv_bytes_per_token, swap_cost, transfer_link
from .entries import Deployment
from .file import LLMPlan
from .result import LLMPlanResult

__all__ = ["by_model", "requests_by_model", "simulate_plan", "simulate_under", "simulate_varying"]

Requests = LLMTrace | Trace | Iterable[LLMRequest]
Costs = Callable[[Deployment], IterationCost]
Times = Callable[[Deployment, LLMTrace], StepDraws]


def simulate_plan(
    plan: LLMPlan,
    requests: Requests | Mapping[str, Requests],
    *,
    tables: Tables | None = None,
    overheads: Overheads | None = None,
    costs: Costs | None = None,
    too_long: str = "error",
    until: float | None = None,
    seed: int = 0,
    engine: str = "auto",
) -> LLMPlanResult:
    """Simulate how a plan's deployments serve requests.

    A model with one deployment on devices of its own is simulated by `simulate_llm`, with an engine for each replica;
    prefill and decode deployments become its `pools`; of deployments with shares each gets its share of the requests
    (`policy.deal`). Other models whose engines share devices, or whose engines differ, are
    simulated together by `simulate_shared`. A pipeline of n stages has n batches in flight, each with its share of the
    memory and of the running requests; where the deployment's options have ``pipeline_parallel_size`` one scheduler has
    them all, as in vLLM, and the reference simulates it.

    Parameters
    ----------
    plan : LLMPlan
        The plan.
    requests : mapping of str to requests, or requests
        Model -> its requests. A `Trace` with token columns names the models itself; requests without a mapping go to
        the plan's only model.
    tables : KernelTables or mapping of str to KernelTables, optional
        Measured kernels of the plan's cluster, or by device type; without them, times follow from rooflines.
    overheads : Overheads, optional
        Host times of an iteration.
    costs : callable, optional
        Deployment -> its iteration cost, to use instead of `tables` and `overheads`.
    too_long, until, seed, engine
        See `simulate_llm`.

    Returns
    -------
    LLMPlanResult

    Raises
    ------
    InputError
        On a model without requests or engines, a degree that no cost is known for, or what `simulate_llm` refuses.
    """
    asked = requests_by_model(plan, requests)

    def from_device(deployment: Deployment) -> IterationCost:
        return deployment_cost(plan, deployment, tables, overheads)

    cost_of = costs or from_device
    results: dict[str, LLMResult] = {}
    together = _joint(plan, list(asked))
    for model, trace in asked.items():
        mine = plan.deployments_of(model)
        if not mine:
            raise InputError(f"plan: no engine serves {model!r}, which has {len(trace)} requests")
        if model in together:
            continue
        shape = _Common(plan, cost_of, too_long, until, seed, engine)
        shape.tables = tables
        results[model] = shape.served(mine, trace)
    if together:
        from ..shared import SharedEngine, simulate_shared

        drafted = next((d.name for d in plan.deployments if d.model in together and d.speculative is not None), None)
        if drafted is not None:
            raise InputError(f"plan: {drafted!r}: speculative decoding of engines that share devices is not simulated")
        engines = [
            SharedEngine(d.model, frozenset(row), d.policy, flight_options(d), cost_of(d), d.pp)
            for d in plan.deployments
            if d.model in together
            for row in d.devices
        ]
        shared = {model: asked[model] for model in together}
        results |= simulate_shared(
            shared, engines, router=plan.router, until=until, too_long=too_long, seed=seed, engine=engine
        )
    return LLMPlanResult(plan, {model: seen_by_clients(results[model]) for model in asked})


def simulate_varying(
    plan: LLMPlan,
    requests: Mapping[str, LLMTrace],
    times: Times,
    *,
    tables: Tables | None = None,
    seed: int = 0,
    engine: str = "auto",
) -> LLMPlanResult:
    """`simulate_plan` of deployments whose steps vary.

    Parameters
    ----------
    plan, requests, tables, seed, engine
        See `simulate_plan`.
    times : callable
        Deployment, its requests -> factors on the cost of its engines' steps (`draw_steps`).

    Raises
    ------
    InputError
        Where engines share devices, or prompts and decodes have deployments of their own: those are not drawn.
    """
    asked = requests_by_model(plan, requests)
    if _joint(plan, list(asked)) or any(len(plan.deployments_of(model)) != 1 for model in asked):
        raise InputError("times: are drawn for one deployment a model, on devices of its own; set times: mean")
    shape = _Common(plan, lambda d: deployment_cost(plan, d, tables), "error", None, seed, engine)
    shape.tables = tables
    return LLMPlanResult(
        plan, {m: seen_by_clients(shape.alone(plan.deployments_of(m)[0], t, times)) for m, t in asked.items()}
    )


def simulate_under(
    plan: LLMPlan,
    requests: Mapping[str, LLMTrace],
    conditions: Conditions,
    *,
    tables: Tables | None = None,
    seed: int = 0,
    engine: str = "auto",
    too_long: str = "error",
) -> LLMPlanResult:
    """`simulate_plan` of engines that fail, or that are given back and started by load.

    Parameters
    ----------
    plan, requests, tables, seed, engine, too_long
        See `simulate_plan`; failures are drawn by the seed.
    conditions : Conditions
        What befalls the engines.

    Raises
    ------
    InputError
        Where engines share devices, or deployments have shares of the requests; on what the plan has not.
    """
    asked = requests_by_model(plan, requests)
    for what, some in (("share devices", _joint(plan, list(asked))), ("have shares of the requests", [
        model for model in asked if any(d.share is not None for d in plan.deployments_of(model))
    ])):  # fmt: skip
        if some:
            raise InputError(f"failures, scaling: engines of {some[0]!r} {what}; that is not simulated with them")
    results: dict[str, LLMResult] = {}
    for model, trace in asked.items():
        mine = sorted(plan.deployments_of(model), key=lambda d: d.role == "decode")
        if not mine:
            raise InputError(f"plan: no engine serves {model!r}, which has {len(trace)} requests")
        one = conditions.seed(plan, mine[0], seed)
        shape = _Common(plan, lambda d: deployment_cost(plan, d, tables), too_long, None, one, engine)
        shape.tables, shape.options = tables, conditions.options(shape.options, plan, mine)
        results[model] = seen_by_clients(shape.served(tuple(mine), trace))
    return LLMPlanResult(plan, results)


LORA_RANK = 16
"""Rank of the adapters that plans are simulated with: vLLM's default of ``--max-lora-rank``."""


class _Common:
    """Options that the simulations of all models of a plan have in common."""

    def __init__(self, plan: LLMPlan, costs: Costs, too_long: str, until: float | None, seed: int, engine: str) -> None:
        self.plan, self.costs = plan, costs
        self.options = SimulateOptions(too_long=too_long, until=until)
        self.tables: Tables | None = None
        self.same: dict[str, Any] = {"router": plan.router, "seed": seed, "engine": engine}

    def served(self, mine: tuple[Deployment, ...], trace: LLMTrace) -> LLMResult:
        """A model's deployments: one alone, each with its share, or prompts and decodes apart."""
        if len(mine) == 1:
            return self.alone(mine[0], trace)
        return self.dealt(mine, trace) if mine[0].share is not None else self.disaggregated(mine, trace)

    def alone(self, d: Deployment, trace: LLMTrace, times: Times | None = None) -> LLMResult:
        """One deployment on devices of its own."""
        options = self.options if times is None else replace(self.options, times=times(d, trace))
        if d.speculative is not None:
            options = replace(options, speculative=drafts_of(self.plan, d, self.tables))
        if trace.lora is not None:
            options = replace(options, adapters=AdapterCost.of(self.plan.model(d.model).spec, LORA_RANK, tp=d.tp))
        if getattr(d.options, "preemption_mode", None) == "swap":
            options = replace(options, swap=swap_cost(self.plan, d))
        return simulate_llm(
            trace, policy=d.policy, config=flight_options(d), cost=self.costs(d), engines=d.replicas * d.schedulers,
            options=options, **self.same,
        )  # fmt: skip

    def dealt(self, mine: tuple[Deployment, ...], trace: LLMTrace) -> LLMResult:
        """Deployments that are not alike, each with its share of the requests."""
        rows = dealt(trace, [d.share or 0.0 for d in mine])
        *firsts, engines = accumulate((d.replicas * d.schedulers for d in mine), initial=0)
        parts = [
            Part(r, self.alone(d, trace.select(r)), first)
            for d, r, first in zip(mine, rows, firsts, strict=True)
            if len(r)
        ]
        return merged(trace, parts, engines)

    def disaggregated(self, mine: tuple[Deployment, ...], trace: LLMTrace) -> LLMResult:
        """One deployment for prompts and one for decodes."""
        from ..fleet.pools import Pools

        prefill, decode = sorted(mine, key=lambda d: d.role == "decode")
        pools = Pools(
            prefill.replicas * prefill.pp,
            decode.replicas * decode.pp,
            transfer_link(self.plan, prefill, decode),
            kv_bytes_per_token=kv_bytes_per_token(self.plan, prefill),
            decode_config=flight_options(decode),
            decode_cost=self.costs(decode),
        )
        return simulate_llm(
            trace, policy=prefill.policy, config=flight_options(prefill), cost=self.costs(prefill),
            options=replace(self.options, pools=pools), **self.same,
        )  # fmt: skip


def _joint(plan: LLMPlan, models: list[str]) -> list[str]:
    """Models that must be simulated together: they share devices with others, or have unlike engines."""
    users: dict[int, set[str]] = {}
    for d in plan.deployments:
        for x in (x for row in d.devices for x in row):
            users.setdefault(x, set()).add(d.name)
    crowded = {name for names in users.values() if len(names) > 1 for name in names}
    found: list[str] = []
    for model in models:
        mine = plan.deployments_of(model)
        split = {d.role for d in mine} == {"prefill", "decode"}
        given = mine and mine[0].share is not None
        shares = any(d.name in crowded for d in mine)
        if split and (shares or len(mine) > 2):
            what = "share devices" if shares else "are more than one deployment for each role"
            raise InputError(f"plan: the prefill and decode engines of {model!r} {what}; that is not simulated")
        if shares and given:
            raise InputError(f"plan: deployments of {model!r} have shares of the requests, and share devices; not both")
        if shares or (len(mine) > 1 and not split and not given):
            found.append(model)
    return found


def requests_by_model(plan: LLMPlan, requests: Requests | Mapping[str, Requests]) -> dict[str, LLMTrace]:
    """The requests of each model that has any, in the order of the plan's models.

    Raises
    ------
    InputError
        On a model that the plan does not know, or requests that do not say theirs where there are several.
    """
    names = [m.name for m in plan.models]
    given: dict[str, Requests] = {}
    if isinstance(requests, Mapping):
        given = dict(cast("Mapping[str, Requests]", requests))
    elif isinstance(requests, Trace):
        given = dict(by_model(requests))
    elif len(names) == 1:
        given = {names[0]: requests}
    else:
        raise InputError(f"requests: the plan serves {', '.join(names)}; give a mapping from model to requests")
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(f"requests: the plan serves no model {unknown[0]!r}; it serves {', '.join(names)}")
    if not given:
        raise InputError("requests: no request at all; expected at least one")
    return {name: LLMTrace.of(given[name]) for name in names if name in given}
