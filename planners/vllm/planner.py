"""`plan`: how to serve language models on so many devices, or on how few, within their limits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import InfeasibleError, InputError
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.entries import Deployment, LLMWorkload
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.llm.plan.simulate import simulate_plan
from ...simulator.llm.workload.requests import LLMTrace
from ...simulator.plan.entries import PlannerEntry
from .choice import Front, fewest, split
from .costs import CostSource
from .demand import LLMDemand
from .infeasible import no_engine, not_enough, out_of_reach
from .layouts import engine_shapes, place
from .planning import Planning
from .scoring import Evaluator, Setting, served
from .search import Bracket, ModelSearch
from .space import Effort, SearchSpace

__all__ = ["OBJECTIVES", "check_asked", "plan", "workload_of"]

OBJECTIVES = ("goodput", "devices", "rate")


def plan(
    cluster: Cluster,
    demands: Sequence[LLMDemand],
    *,
    objective: str = "goodput",
    target: float = 0.99,
    space: SearchSpace | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
    **costs: Any,
) -> Planning:
    """Choose engines for language models: parallelism, options, replicas, and how many devices each model gets.

    For every number of devices, candidates that use exactly so many race by successive halving: few requests for all of
    them, more for the best, the whole trace under several seeds for the last ones; all on the same requests. Such a
    bracket does not depend on the budget, so more devices are never worse. Models get devices of their own, split by
    dynamic programming; `plan_shared` lets them share.

    Parameters
    ----------
    cluster : Cluster
        The devices there are.
    demands : sequence of LLMDemand
        The models, their requests and limits.
    objective : {"goodput", "devices", "rate"}
        Most good requests on the cluster; fewest devices on which every model attains the target; or the highest
        common multiple of the load at which all attain it.
    target : float
        Share of a model's requests that must be within both limits, in (0, 1].
    space : SearchSpace, optional
        What may be chosen.
    effort : Effort, optional
        How hard is searched.
    seed : int
        First seed of the requests, >= 0.
    workers : int
        Processes; the plan does not depend on it.
    progress : callable, optional
        Told what is being done.
    **costs
        Fields of `CostSource`, what iterations cost: ``tables``, ``overheads`` or ``costs``.

    Returns
    -------
    Planning

    Raises
    ------
    InputError
        On no model, the same one twice, or a value out of its range.
    InfeasibleError
        If a model fits no engine, the devices do not suffice, or the target cannot be reached; with the smallest change
        that would mend it.
    """
    begun = time.perf_counter()
    space, effort = space or SearchSpace(), effort or Effort()
    check_asked(demands, objective, OBJECTIVES, target, space)
    setting = Setting(cluster, tuple(demands), CostSource(**costs), target)
    seeds = range(seed, seed + effort.seeds)
    say = progress or _silent
    with Evaluator(setting, workers) as evaluator:
        searches: list[ModelSearch] = []
        for number, demand in enumerate(demands):
            shapes = engine_shapes(demand, cluster, space, seeds)
            if not shapes.possible:
                raise InfeasibleError(no_engine(demand, cluster, space, shapes, seeds))
            searches.append(
                ModelSearch(evaluator, number, shapes, space, effort, highest_rate=objective == "rate", seed=seed)
            )
        least = sum(s.fewest for s in searches)
        if least > cluster.n_devices:
            raise InfeasibleError(not_enough(demands, [s.fewest for s in searches], cluster))
        if objective == "devices":
            chosen, fronts = _fewest(searches, demands, target, cluster, say)
        else:
            chosen, fronts = _most(searches, demands, cluster, objective, say)
        made = _assemble(setting, chosen, seed)
        rejected = {d.name: s.shapes.rejected for d, s in zip(demands, searches, strict=True)}
        entry = PlannerEntry(
            name="vllm",
            options={"objective": objective, "target": target, "eta": effort.eta, "seeds": effort.seeds},
            seed=seed,
            seconds=time.perf_counter() - begun,
            evaluations=evaluator.simulations,
        )
        return Planning(made.model_copy(update={"planner": entry}), tuple(chosen), tuple(fronts), rejected, objective)


def check_asked(
    demands: Sequence[LLMDemand], objective: str, known: Sequence[str], target: float, space: SearchSpace
) -> None:
    """See that what a planner is asked makes sense, whatever devices there are.

    Raises
    ------
    InputError
        On an unknown objective or one that no model has a limit for, a target that is no share, no model, the same one
        twice, or several routers for several models.
    """
    if objective not in known:
        raise InputError(f"objective: expected one of {', '.join(known)} (got {objective!r})")
    if not 0 < target <= 1:
        raise InputError(f"target: expected a share of the requests in (0, 1] (got {target})")
    names = [d.name for d in demands]
    if not names or len(set(names)) < len(names):
        raise InputError(f"demands: expected models of different names (got {', '.join(names) or 'none'})")
    if objective != "goodput" and not any(d.promises.some for d in demands):
        raise InputError(
            f"objective: {objective} asks for a share of the requests within limits, and no model has a limit; give "
            "LLMDemand(…, ttft_s=…, tpot_s=…), or --slo-ttft or --slo-tpot"
        )
    if len(names) > 1 and len(space.routers) > 1:
        raise InputError(f"space: routers: a plan has one for all of its models (got {', '.join(space.routers)})")


def _silent(_: str) -> None:
    """Nobody listens."""


def _most(
    searches: Sequence[ModelSearch],
    demands: Sequence[LLMDemand],
    cluster: Cluster,
    objective: str,
    say: Callable[[str], None],
) -> tuple[list[Bracket], list[Front]]:
    """The split of the devices under which most requests are good, or the load is highest."""
    spare = cluster.n_devices - sum(s.fewest for s in searches)
    fronts: list[Front] = []
    for search, demand in zip(searches, demands, strict=True):
        brackets: list[Bracket] = []
        for devices in range(search.fewest, search.fewest + spare + 1):
            say(f"{demand.name} on {devices} devices")
            found = search.bracket(devices)
            if found is not None:
                brackets.append(found)
        if not brackets:
            raise InfeasibleError(
                f"{demand.name}: no engines take {search.fewest} to {search.fewest + spare} devices of {cluster}"
            )
        fronts.append(Front(demand.name, tuple(brackets)))
    weights = [float(s.requests) for s in searches]
    chosen = split(fronts, weights, cluster.n_devices, "least" if objective == "rate" else "sum")
    return chosen, fronts


def _fewest(
    searches: Sequence[ModelSearch],
    demands: Sequence[LLMDemand],
    target: float,
    cluster: Cluster,
    say: Callable[[str], None],
) -> tuple[list[Bracket], list[Front]]:
    """The fewest devices for each model."""
    chosen: list[Bracket] = []
    fronts: list[Front] = []
    left = cluster.n_devices
    for number, (search, demand) in enumerate(zip(searches, demands, strict=True)):
        say(f"{demand.name} on as few devices as possible")
        limit = left - sum(s.fewest for s in searches[number + 1 :])
        found = fewest(search, target, limit)
        if found is None:
            raise InfeasibleError(out_of_reach(search, demand, target, limit, cluster, say))
        tried = [b for n in range(search.fewest, found.devices + 1) if (b := search.bracket(n)) is not None]
        chosen.append(found)
        fronts.append(Front(demand.name, tuple(tried)))
        left -= found.devices
    return chosen, fronts


def _assemble(setting: Setting, chosen: Sequence[Bracket], seed: int) -> LLMPlan:
    """The plan of the chosen candidates, simulated as a whole."""
    cluster, demands = setting.cluster, setting.demands
    picked = [bracket.best.candidate for bracket in chosen]
    rows = place([(c.engine.devices, c.engine.tp) for c in picked for _ in range(c.engines)], cluster)
    if rows is None:
        raise InfeasibleError(
            f"the engines do not go into {cluster}: {'; '.join(map(str, picked))}; give a node more devices"
        )
    deployments: list[Deployment] = []
    for demand, candidate in zip(demands, picked, strict=True):
        deployments += candidate.deployments(demand.name, rows[: candidate.engines])
        rows = rows[candidate.engines :]
    traces = {d.name: d.traffic.trace(seed) for d in demands}
    made = LLMPlan.of(
        cluster,
        tuple(served(d) for d in demands),
        tuple(deployments),
        router=picked[0].router,
        planner=PlannerEntry(name="vllm"),
        workload=workload_of(demands, traces),
        cost_source=setting.costs.text(cluster),
    )
    source = setting.costs
    result = simulate_plan(made, traces, tables=source.tables, costs=lambda d: source.of(made, d), seed=seed)
    said = result.predictions()
    for demand, bracket in zip(demands, chosen, strict=True):
        if not math.isnan(bracket.best.scores[0].factor):
            known = all(score.bounded for score in bracket.best.scores)
            key = "highest_load_factor" if known else "highest_load_factor_at_least"
            said["predicted_per_model"][demand.name][key] = bracket.best.value
    return made.model_copy(update=said)


def workload_of(demands: Sequence[LLMDemand], traces: Mapping[str, LLMTrace]) -> LLMWorkload:
    """What the models are asked for, summed up as plans say it."""
    return LLMWorkload(
        requests=sum(map(len, traces.values())),
        duration_s=max(float(t.arrival[-1]) for t in traces.values()),
        rate_per_s={d.name: d.traffic.per_second for d in demands if math.isfinite(d.traffic.per_second)},
        mean_prompt_tokens={n: float(t.prompt_tokens.mean()) for n, t in traces.items()},
        mean_output_tokens={n: float(t.output_tokens.mean()) for n, t in traces.items()},
        max_sequence_tokens=max(int((t.prompt_tokens + t.output_tokens).max()) for t in traces.values()),
        source="; ".join(dict.fromkeys(d.traffic.source for d in demands)),
    )
