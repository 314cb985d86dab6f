"""An LLM case solved: its traffic, its engines, and the simulation that scores them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ...errors import InfeasibleError
from ...planners.vllm import Candidate, DrawnTraffic, Effort, GivenTraffic, LLMDemand, SearchSpace, plan
from ...planners.vllm.layouts import engine_shapes
from ...planners.vllm.scoring import Setting
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.llm.plan.simulate import simulate_plan
from ...simulator.llm.result.columns import LLMResult
from ...simulator.llm.workload.requests import LLMTrace
from .case import LLMCase
from .data import LLMData, planner_options

__all__ = ["LLMSolved", "limits", "solve"]


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
    w = case.workload
    given = (w.slo_ttft, w.slo_tpot)
    ttft, tpot = (math.inf if limit is None else limit * w.slo_scale for limit in given)
    return ttft, tpot


def demand_of(case: LLMCase, data: LLMData) -> LLMDemand:
    """What the model of a case is asked for.

    Another rate stretches the same gaps, and moves no length.
    """
    w = case.workload
    ttft, tpot = limits(case)
    if w.trace is None:
        assert w.rate is not None  # the case has checked it
        traffic: Any = DrawnTraffic(data.lengths[w.lengths], w.rate * w.rate_scale, w.requests, w.cv * w.cv_scale)
    else:
        traffic = GivenTraffic(_squeezed(data.traces[w.trace], w.rate_scale), w.trace)
    return LLMDemand(data.models[case.model], traffic, ttft, tpot)


def _squeezed(trace: LLMTrace, factor: float) -> LLMTrace:
    """The same requests, so many times as fast."""
    if factor == 1:
        return trace
    return LLMTrace(
        trace.arrival / factor, trace.prompt_tokens, trace.output_tokens, best_of=trace.best_of, beam=trace.beam,
        priority=trace.priority, after=trace.after, think_s=trace.think_s, prefix_ids=trace.prefix_ids,
        prefix_block=trace.prefix_block,
    )  # fmt: skip


def cluster_of(case: LLMCase) -> Cluster:
    """The devices: full nodes, or where these do not come out even the largest equal nodes."""
    c = case.cluster
    per_node = next(n for n in range(min(c.devices, c.devices_per_node), 0, -1) if c.devices % n == 0)
    return Cluster(c.devices // per_node, per_node, c.device)


def solve(case: LLMCase, data: LLMData) -> LLMSolved:
    """Choose the engines and simulate them.

    Raises
    ------
    InfeasibleError
        If no engine is possible, or none goes into the cluster.
    InputError
        If a request is longer than the model takes.
    """
    made, evaluations = _planned(_Asked(_seen(case), case, data))
    demand = demand_of(case, data)
    ttft, tpot = limits(case)
    entry = made.models[0].model_copy(
        update={f"slo_{n}_s": None if math.isinf(x) else x for n, x in (("ttft", ttft), ("tpot", tpot))}
    )
    made = made.model_copy(update={"models": (entry,)})
    tables = None if case.kernels is None else data.tables[case.kernels]
    scored = simulate_plan(made, {entry.name: demand.traffic.trace(case.seed)}, tables=tables, seed=case.seed)
    result = scored.results[entry.name]
    if case.warmup:
        result = result.trim(case.warmup, case.warmup)
    return LLMSolved(case, made, result, evaluations)


def _seen(case: LLMCase) -> str:
    """What decides a plan: limits do not where the engine is given, nor does what is only counted."""
    unseen: dict[str, Any] = {"warmup": True, "planner": {"label"}}
    if case.planner.name == "fixed":
        unseen["workload"] = {"slo_ttft", "slo_tpot", "slo_scale"}
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
    demand, cluster = demand_of(case, data), cluster_of(case)
    tables = None if case.kernels is None else data.tables[case.kernels]
    space, effort = planner_options(case.planner.options)
    if case.planner.name == "vllm":
        found = plan(
            cluster, [demand], objective="goodput", tables=tables, space=SearchSpace(**space), effort=Effort(**effort),
            seed=case.seed,
        )  # fmt: skip
        return found.plan, found.plan.planner.evaluations
    return _fixed(case, demand, cluster, Setting(cluster, (demand,), tables)), 0


def _fixed(case: LLMCase, demand: LLMDemand, cluster: Cluster, setting: Setting) -> LLMPlan:
    """As many engines as the devices hold."""
    e = case.engine
    space = SearchSpace(
        tp=(e.tensor_parallel_size,), pp=(e.pipeline_parallel_size,), cp=(e.decode_context_parallel_size,),
        policies=(e.policy,), block_sizes=(e.block_size,), batched_tokens=(e.max_num_batched_tokens,),
        seqs=(e.max_num_seqs,), chunked_prefill=(e.enable_chunked_prefill,), utilizations=(e.gpu_memory_utilization,),
        precision=e.precision, kv_precision=e.kv_precision,
    )  # fmt: skip
    shapes = engine_shapes(demand, cluster, space, (case.seed,))
    if not shapes.possible:
        raise InfeasibleError(f"{demand.name}: {shapes.rejected[0].what}: {shapes.rejected[0].why}")
    shape = replace(shapes.possible[0], prefix_caching=e.enable_prefix_caching)
    engines = cluster.n_devices // shape.devices
    if engines <= e.decode_engines:
        raise InfeasibleError(
            f"{cluster.n_devices} devices hold {engines} engines of {shape.devices}; "
            + (f"{e.decode_engines} of them decode and one reads prompts at least" if e.decode_engines else "give more")
        )
    chosen = Candidate(shape, engines - e.decode_engines, e.decode_engines, e.router)
    return setting.plan(0, chosen)
