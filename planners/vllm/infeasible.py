"""Why there is no plan, and the smallest change that would make one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ...profiles.devices import GIB
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.simulate import simulate_plan
from ...simulator.llm.result.columns import LLMResult
from .demand import LLMDemand
from .layouts import Shapes, engine_shapes
from .search import Bracket, ModelSearch
from .space import SearchSpace

__all__ = ["FURTHER", "looser", "no_engine", "not_enough", "out_of_reach", "promised"]

FURTHER = 8
"""Up to this multiple of the devices is looked for a number that would do."""
MOST_MEMORY = 1024
"""Up to so many quarters of a device's memory is looked for one that would hold the model."""


def no_engine(demand: LLMDemand, cluster: Cluster, space: SearchSpace, shapes: Shapes, seeds: Sequence[int]) -> str:
    """No engine of the space holds the model: would larger degrees, or how much more memory?"""
    said = f"{demand.name}: none of {len(shapes.rejected)} engines is possible on {cluster.spec.name}"
    last = f"; the nearest: {shapes.why_not}"
    wider = replace(space, tp=(1, 2, 4, 8), pp=tuple(range(1, 17)))
    possible = engine_shapes(demand, cluster, wider, seeds).possible
    if possible:
        first = min(possible, key=lambda s: (s.devices, s.pp))
        return f"{said}{last}; smallest change: allow TP{first.tp} PP{first.pp}, {first.devices} devices"
    spec, low, high = cluster.spec, 4, MOST_MEMORY  # quarters of the memory: too little, and perhaps enough

    def holds(quarters: int) -> bool:
        size = quarters * spec.memory_bytes // 4
        larger = Cluster(cluster.nodes, cluster.devices_per_node, replace(spec, memory_bytes=size))
        return bool(engine_shapes(demand, larger, space, seeds).possible)

    if not holds(high):
        return said + last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return f"{said}{last}; smallest change: devices with {high * spec.memory_bytes / 4 / GIB:.0f} GiB of memory"


def not_enough(demands: Sequence[LLMDemand], least: Sequence[int], cluster: Cluster) -> str:
    """The models need more devices than there are, whatever the load."""
    total = sum(least)
    needs = ", ".join(f"{d.name} {n}" for d, n in zip(demands, least, strict=True))
    return (
        f"the models need {total} {cluster.spec.name} devices ({needs}), there are {cluster.n_devices}; "
        f"smallest change: {total - cluster.n_devices} more"
    )


def out_of_reach(
    search: ModelSearch, demand: LLMDemand, target: float, limit: int, cluster: Cluster, say: Callable[[str], None]
) -> str:
    """The target is not attained within the limit: would more devices do, or which limits would?"""
    tried = [b for n in range(search.fewest, limit + 1) if (b := search.bracket(n)) is not None]
    best = max(tried, key=lambda b: b.best.key)
    said = (
        f"{demand.name}: {target:.4g} of the requests within {promised(demand)} is "
        f"not reached on {limit} {cluster.spec.name} devices; the best, {best.best.candidate}, reaches "
        f"{best.best.attained:.4f}"
    )
    say(f"{demand.name}: looking for the smallest change")
    changes: list[str] = []
    wider = ModelSearch(
        search.evaluator.on(Cluster(FURTHER * cluster.nodes, cluster.devices_per_node, cluster.device)),
        search.demand, search.shapes, search.space, search.effort, highest_rate=False, seed=search.seed,
    )  # fmt: skip
    for devices in range(limit + 1, FURTHER * limit + 1):
        bracket = wider.bracket(devices)
        if bracket is not None and bracket.best.attained >= target:
            changes.append(f"{devices - limit} more devices ({devices})")
            break
    relaxed = _limits(search, demand, best, target)
    if relaxed:
        changes.append(relaxed)
    return f"{said}; smallest change: {', or '.join(changes)}" if changes else said


def promised(demand: LLMDemand) -> str:
    """What the users of a model were promised."""
    return str(demand.promises) if demand.slo else f"TTFT {demand.ttft_s:g} s and TPOT {demand.tpot_s:g} s"


def _limits(search: ModelSearch, demand: LLMDemand, best: Bracket, target: float) -> str:
    """Looser limits under which the best candidate would do, on the first seed."""
    setting = search.evaluator.setting
    plan = setting.plan(search.demand, best.best.candidate)
    result = simulate_plan(
        plan, demand.traffic.trace(search.seed), costs=lambda d: setting.costs.of(plan, d), seed=search.seed
    ).results[demand.name]
    return looser(result, demand, target)


def looser(result: LLMResult, demand: LLMDemand, target: float) -> str:
    """The tightest limit under which a result would attain a target if the other one stayed, or both; empty: none."""
    if demand.slo:
        missed = [v for v in demand.promises.judge(result).verdicts if not v.met and np.isfinite(v.value_s)]
        return " and ".join(str(replace(v.objective, limit_s=float(_up(v.value_s)))) for v in missed)
    done = result.finished
    first = (result.first_token - result.arrival)[done]
    steps = np.maximum(result.generated[done] - 1, 1)
    further = np.where(result.generated[done] > 1, (result.finish - result.first_token)[done] / steps, 0.0)
    need = int(np.ceil(target * len(result)))
    for name, values, others in (
        ("TTFT", first, further <= demand.tpot_s),
        ("TPOT", further, first <= demand.ttft_s),
    ):
        if others.sum() >= need:
            return f"a {name} limit of {_up(float(np.sort(values[others])[need - 1]))} s"
    if len(first) >= need:
        both = np.sort(first)[need - 1], np.sort(further)[need - 1]
        return f"limits no tighter than TTFT {_up(float(both[0]))} s and TPOT {_up(float(both[1]))} s, both"
    return ""


def _up(value: float) -> str:
    """Three digits, rounded up."""
    digits = 2 - int(np.floor(np.log10(value))) if value > 0 else 2
    return f"{np.ceil(value * 10.0**digits) / 10.0**digits:.{max(digits, 0)}f}"
