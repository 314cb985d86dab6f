"""An LLM case solved: its traffic, its engines, and the simulation that scores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError, InputError
from ...planners.vllm import Candidate, Effort, LLMDemand, SearchSpace
from ...profiles.llm import DecoderSpec
from ...profiles.llm.tower import images_of
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.costs import Tables
from ...simulator.llm.plan.entries import promised
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.llm.result.columns import LLMResult
from .case import EngineCase, LLMCase
from .conditions.befalling import scored
from .data import LLMData, planner_options
from .demands import demand_of
from .fleet import cluster_of, fleet_of, mixes
from .links import linked, links_of

if TYPE_CHECKING:
    from ...planners.vllm.scoring import Setting

__all__ = [
    "LLMSolved",
    "limits",
    "mean_only",
    "planned",
    "solve",
    "stated_space",
    "tables_of",
    "as_said",
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


def tables_of(case: LLMCase, data: LLMData) -> Tables | None:
    """Measured kernels, if the case names any: of the cluster's own device, or by device type."""
    if isinstance(case.kernels, Mapping):
        return {data.devices[name].name: data.tables[folder] for name, folder in case.kernels.items()}
    return None if case.kernels is None else data.tables[case.kernels]


def as_said(plan: LLMPlan, case: LLMCase, data: LLMData, limits_of: LLMPlan | None = None) -> LLMPlan:
    """A plan whose models have the limits of a case, its images, and its requests' favourites among experts, and whose
    devices have its links.

    Limits that the case does not say are each model's own in the plan `limits_of`, if one is given.

    Raises
    ------
    InputError
        On a link of a type that the plan has not.
    """
    w = case.workload
    seen = {"images": images_of(w.images), "expert_skew": w.expert_skew}
    said = {name: value for name, value in seen.items() if name in w.model_fields_set}

    def limits(name: str) -> dict[str, Any]:
        return promised(w.promises if limits_of is None else w.promises_over(limits_of.model(name).promises))

    models = tuple(m.model_copy(update=said | limits(m.name)) for m in plan.models)
    return linked(plan.model_copy(update={"models": models}), links_of(case, data))


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
    made = as_said(made, case, data)
    requests = {demand.name: demand.traffic.trace(case.seed)}
    found = scored(made, requests, case, data.scripts, tables=tables_of(case, data), seed=case.seed)
    result = found.results[demand.name]
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
    unseen: dict[str, Any] = {"planner": {"label"}} | dict.fromkeys(("warmup", "failures", "loading", "scaling"), True)
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
    space, effort = planner_options(case)
    if case.planner.name == "vllm" and mixes(case):
        from ...planners.vllm.mixes import plan_fleet

        cheapest = plan_fleet(
            fleet_of(case, data), [demand], objective=case.planner.objective, target=case.planner.target,
            tables=tables, space=SearchSpace(**stated_space(space, [demand.model])), effort=Effort(**effort),
            seed=case.seed,
        )  # fmt: skip
        return cheapest.plan, cheapest.plan.planner.evaluations
    if case.planner.name == "vllm":
        from ...planners.vllm import plan

        found = plan(
            cluster, [demand], objective=case.planner.objective, target=case.planner.target, tables=tables,
            space=SearchSpace(**stated_space(space, [demand.model])), effort=Effort(**effort), seed=case.seed,
        )  # fmt: skip
        return found.plan, found.plan.planner.evaluations
    from ...planners.vllm.costs import CostSource
    from ...planners.vllm.scoring import Setting

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
    from ...planners.vllm.layouts import engine_shapes

    e = case.engine
    space = SearchSpace(
        tp=(e.tensor_parallel_size,), pp=(e.pipeline_parallel_size,), cp=(e.decode_context_parallel_size,),
        dp=(e.data_parallel_size,), expert_parallel=(e.enable_expert_parallel,), eplb=(e.enable_eplb,),
        all2all=(e.all2all_backend,),
        speculative=(None if e.speculative_config is None else e.speculative_config.entry(),),
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
