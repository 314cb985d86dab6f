"""`simulate_plan`: score an LLM plan on requests. Each model gets the simulation that its deployments need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from ....errors import InputError
from ....profiles.llm.cost.overheads import Overheads
from ....profiles.llm.iteration import IterationCost
from ....traces.trace import Trace
from ..policy.request import LLMRequest
from ..result.columns import LLMResult
from ..result.front import seen_by_clients
from ..workload.files import by_model
from ..workload.requests import LLMTrace
from .conditions import Conditions
from .costs import Tables, deployment_cost, flight_options
from .entries import Deployment
from .file import LLMPlan
from .result import LLMPlanResult
from .served import Costs, Served, Times

__all__ = ["by_model", "requests_by_model", "simulate_plan", "simulate_under", "simulate_varying"]

Requests = LLMTrace | Trace | Iterable[LLMRequest]


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
        shape = Served(plan, cost_of, too_long, until, seed, engine)
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
    shape = Served(plan, lambda d: deployment_cost(plan, d, tables), "error", None, seed, engine)
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
        Where engines share devices, or are scaled and have shares of the requests; on what the plan has not.
    """
    asked = requests_by_model(plan, requests)
    shared = _joint(plan, list(asked))
    if shared:
        raise InputError(f"failures, scaling: engines of {shared[0]!r} share devices; that is not simulated with them")
    shape = Served(plan, lambda d: deployment_cost(plan, d, tables), too_long, None, seed, engine, conditions)
    shape.tables = tables
    results: dict[str, LLMResult] = {}
    for model, trace in asked.items():
        mine = plan.deployments_of(model)
        if not mine:
            raise InputError(f"plan: no engine serves {model!r}, which has {len(trace)} requests")
        results[model] = seen_by_clients(shape.served(mine, trace))
    return LLMPlanResult(plan, results)


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
