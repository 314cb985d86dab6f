"""An LLM case solved: its traffic, its engines, and the simulation that scores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ...errors import InfeasibleError, InputError
from ...planners.vllm import Candidate, CostSource, DrawnTraffic, Effort, GivenTraffic, LLMDemand, SearchSpace, plan
from ...planners.vllm.demand import SpreadOutputs
from ...planners.vllm.layouts import engine_shapes
from ...planners.vllm.mixes import plan_mixed
from ...planners.vllm.scoring import Setting
from ...profiles.llm import DecoderSpec, KernelTables
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.entries import promised
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.llm.plan.simulate import simulate_plan
from ...simulator.llm.result.columns import LLMResult
from ...simulator.llm.workload.requests import LLMTrace
from ...traces.splits import shares
from .case import EngineCase, LLMCase
from .data import LLMData, planner_options
from .fleet import cluster_of, fleet_of, mixes

__all__ = [
    "LLMSolved",
    "demands_of",
    "limits",
    "mean_only",
    "planned",
    "solve",
    "stated_space",
    "squeezed",
    "tables_of",
    "with_limits",
]


@dataclass(frozen=True, slots=True, eq=False)
class LLMSolved:
    """A case, its plan, and what came of its requests.

    Parameters
    ----------
    case : LLMCase
        The case.
    plan : LLMPlan
        Its engines.
    result : LLMResult
        Its requests.
    evaluations : int
        Simulations that the planner made.
    """

    case: LLMCase
    plan: LLMPlan
    result: LLMResult
    evaluations: int = 0


def limits(case: LLMCase) -> tuple[float, float]:
    """Limits of TTFT and of TPOT, seconds; infinite where there is none."""
    said = case.workload.promises
    return said.ttft_s, said.tpot_s


FEWEST, LONGEST_S, MOST = 2000, 120.0, 20_000
"""What is drawn, all models together, where nobody says how long: so many requests, or those of so many seconds if that
is more (what is overloaded a little looks fine for a while), but no more than so many."""


def demands_of(case: LLMCase, data: LLMData) -> list[LLMDemand]:
    """What each model of a case is asked for; models without traffic are left out.

    Another `rate_scale` stretches the same gaps, and moves no length.
    """
    w, said = case.workload, case.workload.promises
    specs = [data.models[name] for name in case.models]
    if w.trace is not None:
        held = data.traces[w.trace]
        if len(specs) == 1 and len(held) == 1:
            held = {specs[0].name: next(iter(held.values()))}
        return [
            LLMDemand(spec, given(case, held[spec.name]), said.ttft_s, said.tpot_s, slo=said.objectives)
            for spec in specs
        ]
    parts = shares(w.split, [spec.name for spec in specs])
    rate = w.requests or 0.0 if w.rate is None else w.rate  # of clients without a rate: a second for all requests
    if w.requests is not None:
        seconds = w.requests / rate
    else:
        seconds = w.duration or min(max(FEWEST / rate, LONGEST_S), MOST / rate)
    lengths = data.lengths[w.lengths]
    if w.clients.output_cv is not None:
        lengths = SpreadOutputs(lengths, w.clients.output_cv)
    rates = [rate * float(part) for part in parts]
    return [
        LLMDemand(
            spec,
            DrawnTraffic(
                lengths,
                rate * w.rate_scale,
                max(1, round(rate * seconds)),
                w.cv * w.cv_scale,
                number,
                tuple(w.classes.items()),
                w.clients.clients(w.cv * w.cv_scale),
            ),
            said.ttft_s,
            said.tpot_s,
            slo=said.objectives,
        )
        for number, (spec, rate) in enumerate(zip(specs, rates, strict=True))
        if rate > 0
    ]


def given(case: LLMCase, trace: LLMTrace) -> GivenTraffic:
    """Requests that were read, as the case's clients send them."""
    w, clients = case.workload, case.workload.clients.clients(1.0)
    source = w.trace or ""
    found = squeezed(trace, w.rate_scale)
    if clients is None:
        return GivenTraffic(found, source)
    if clients.rateless:
        if found.after is not None:
            raise InputError("clients.arrivals: the turns of conversations come when they are answered; leave it out")
        return GivenTraffic(found.at(**clients.columns(len(found), 0.0, case.seed), clients=clients), source)
    return GivenTraffic(found.at(found.arrival, clients=clients), source)


def demand_of(case: LLMCase, data: LLMData) -> LLMDemand:
    """What the one model of a case is asked for.

    Raises
    ------
    InputError
        If there are several.
    """
    found = demands_of(case, data)
    if len(case.models) > 1:
        raise InputError(f"model: expected one model here (got {', '.join(case.models)})")
    return found[0]


def tables_of(case: LLMCase, data: LLMData) -> KernelTables | None:
    """Measured kernels, if the case names any."""
    return None if case.kernels is None else data.tables[case.kernels]


def with_limits(plan: LLMPlan, case: LLMCase) -> LLMPlan:
    """A plan whose models have the limits of a case."""
    said = promised(case.workload.promises)
    return plan.model_copy(update={"models": tuple(m.model_copy(update=said) for m in plan.models)})


def squeezed(trace: LLMTrace, factor: float) -> LLMTrace:
    """The same requests, so many times as fast."""
    if factor == 1:
        return trace
    return trace.at(trace.arrival / factor)


def solve(case: LLMCase, data: LLMData) -> LLMSolved:
    """Choose the engines and simulate them.

    Raises
    ------
    InfeasibleError
        If no engine is possible, or none goes into the cluster.
    InputError
        If a request is longer than the model takes.
    """
    made, evaluations = planned(case, data)
    demand = demand_of(case, data)
    made = with_limits(made, case)
    requests = {demand.name: demand.traffic.trace(case.seed)}
    scored = simulate_plan(made, requests, tables=tables_of(case, data), seed=case.seed)
    result = scored.results[demand.name]
    if case.warmup:
        result = result.trim(case.warmup, case.warmup)
    return LLMSolved(case, made, result, evaluations)


def mean_only(case: LLMCase) -> None:
    """Refuse drawn times where nothing is drawn.

    Raises
    ------
    InputError
        On a case with such times.
    """
    if case.times == "drawn":
        raise InputError("times: drawn times are of meshwright simulate; plans and studies take the mean, leave it out")


def planned(case: LLMCase, data: LLMData) -> tuple[LLMPlan, int]:
    """The plan of a case, and the simulations that it took; the same question is answered once in a process.

    Raises
    ------
    InfeasibleError
        If no engine is possible, or none goes into the cluster.
    InputError
        If times are to be drawn: a plan is made for the mean.
    """
    mean_only(case)
    return _planned(_Asked(_seen(case), case, data))


def _seen(case: LLMCase) -> str:
    """What decides a plan: limits do not where the engine is given, nor does what is only counted."""
    unseen: dict[str, Any] = {"warmup": True, "planner": {"label"}}
    if case.planner.name == "vllm":
        unseen["engine"] = True
    if case.planner.name == "fixed":
        unseen["workload"] = {"slo", "slo_ttft", "slo_tpot", "slo_scale"}
    return case.model_dump_json(exclude=unseen)


@dataclass(frozen=True)
class _Asked:
    """A plan to make; equal to another if all that decides it is."""

    seen: str
    case: LLMCase = field(compare=False)
    data: LLMData = field(compare=False)


@lru_cache(maxsize=64)
def _planned(asked: _Asked) -> tuple[LLMPlan, int]:
    case, data = asked.case, asked.data
    demand, cluster = demand_of(case, data), cluster_of(case, data)
    tables = tables_of(case, data)
    space, effort = planner_options(case.planner.options)
    if case.planner.name == "vllm" and mixes(case):
        cheapest = plan_mixed(
            fleet_of(case, data), [demand], objective=case.planner.objective, target=case.planner.target,
            tables=tables, space=SearchSpace(**stated_space(space, [demand.model])), effort=Effort(**effort),
            seed=case.seed,
        )  # fmt: skip
        return cheapest.plan, cheapest.plan.planner.evaluations
    if case.planner.name == "vllm":
        found = plan(
            cluster, [demand], objective=case.planner.objective, target=case.planner.target, tables=tables,
            space=SearchSpace(**stated_space(space, [demand.model])), effort=Effort(**effort), seed=case.seed,
        )  # fmt: skip
        return found.plan, found.plan.planner.evaluations
    return _fixed(case, demand, cluster, Setting(cluster, (demand,), CostSource(tables))), 0


def _stated(engine: EngineCase, field: str, checkpoint: str) -> str:
    """A precision as the case says it, else as the model's file states it, else the case's default."""
    said: str = getattr(engine, field)
    return said if field in engine.model_fields_set else checkpoint or said


def stated_space(space: Mapping[str, Any], models: Sequence[DecoderSpec]) -> dict[str, Any]:
    """Options of a search space with the precisions that the models' files state, where nobody says others."""
    found = dict(space)
    for asked, name in (("precision", "weights_precision"), ("kv_precision", "kv_precision")):
        stated = {getattr(model, name) for model in models}
        if asked not in found and len(stated) == 1 and stated != {""}:
            found[asked] = stated.pop()
    return found


def _fixed(case: LLMCase, demand: LLMDemand, cluster: Cluster, setting: Setting) -> LLMPlan:
    """As many engines as the devices hold."""
    e = case.engine
    space = SearchSpace(
        tp=(e.tensor_parallel_size,), pp=(e.pipeline_parallel_size,), cp=(e.decode_context_parallel_size,),
        policies=(e.policy,), block_sizes=(e.block_size,), batched_tokens=(e.max_num_batched_tokens,),
        seqs=(e.max_num_seqs,), chunked_prefill=(e.enable_chunked_prefill,), utilizations=(e.gpu_memory_utilization,),
        precision=_stated(e, "precision", demand.model.weights_precision),
        kv_precision=_stated(e, "kv_precision", demand.model.kv_precision),
    )  # fmt: skip
    shapes = engine_shapes(demand, cluster, space, (case.seed,))
    if not shapes.possible:
        raise InfeasibleError(f"{demand.name}: {shapes.rejected[0].what}: {shapes.rejected[0].why}")
    shape = replace(shapes.possible[0], prefix_caching=e.enable_prefix_caching, more=tuple(e.scheduler.items()))
    engines = cluster.n_devices // shape.devices
    if engines <= e.decode_engines:
        raise InfeasibleError(
            f"{cluster.n_devices} devices hold {engines} engines of {shape.devices}; "
            + (f"{e.decode_engines} of them decode and one reads prompts at least" if e.decode_engines else "give more")
        )
    chosen = Candidate(shape, engines - e.decode_engines, e.decode_engines, e.router)
    return setting.plan(0, chosen)
