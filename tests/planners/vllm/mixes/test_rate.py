"""The highest load of a fleet of several types: held against mixes that are simulated here, load by load."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.vllm import DrawnTraffic, Effort, LLMDemand, SearchSpace, plan
from meshwright.planners.vllm.mixes import plan_fleet, plan_highest, plan_mixed
from meshwright.profiles.llm import LinearCost, decoder
from meshwright.simulator import Cluster
from meshwright.simulator.llm import Deployment, simulate_llm
from meshwright.simulator.llm.policy.deal import dealt
from meshwright.simulator.mixed import MixedCluster
from meshwright.traces.lengths import length_profile

ALPACA, LLAMA = length_profile("alpaca"), decoder("llama-3.1-8b")
STEPS, TARGET, TTFT, TPOT = 4, 0.9, 0.3, 0.04
SMALL = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(256,), seqs=(16,))
ALL = Effort(eta=1, seeds=1, share_steps=STEPS)
FLEET = MixedCluster((Cluster(1, 1, "h100-80gb"), Cluster(1, 2, "l40s-48gb")))
DEMAND = LLMDemand(LLAMA, DrawnTraffic(ALPACA, 60.0, 100), TTFT, TPOT)


def linear(fast: bool) -> LinearCost:
    slower = 1.0 if fast else 2.5
    return LinearCost(slower * 0.012, slower * 4e-5, slower * 1e-7)


def by_type(d: Deployment) -> LinearCost:
    """Device 0 is the H100."""
    return linear(d.devices[0][0] < 1)


def attains(factor: float) -> bool:
    """Whether any way to deal requests to engines does, without the planner's code."""
    trace = DEMAND.traffic.trace(0)
    trace = trace.at(trace.arrival / factor)
    config = {"num_blocks": 20_000, "max_model_len": 2048, "max_num_batched_tokens": 256, "max_num_seqs": 16}

    def good(rows: Any, fast: bool, engines: int) -> float:
        some = trace.select(rows)
        result = simulate_llm(some, config=config, cost=linear(fast), engines=engines, engine="fast")
        return float(result.good(TTFT, TPOT).sum())

    every = range(len(trace))
    alone = [good(every, True, 1), *(good(every, False, n) for n in (1, 2))]
    both = [
        good(first, True, 1) + good(second, False, n)
        for n, k in itertools.product((1, 2), range(1, STEPS))
        for first, second in [dealt(trace, [k / STEPS, 1 - k / STEPS])]
    ]
    return max(*alone, *both) / len(trace) >= TARGET


def test_the_highest_load_is_that_of_brute_force() -> None:
    found = plan_highest(FLEET, [DEMAND], target=TARGET, space=SMALL, effort=ALL, costs=by_type)
    factor = found.plan.predicted_per_model["Llama-3.1-8B"]["highest_load_factor"]
    assert attains(factor)
    assert not attains(1.03 * factor)  # found to 2 %
    assert factor == found.load
    (option,) = found.chosen.values()
    assert option.finalist.attained >= TARGET
    assert f"at {factor:.4g} times the given load" in found.explain()
    assert found.plan.planner.options["objective"] == "rate"
    assert found.plan.workload is not None
    assert found.plan.workload.rate_per_s["Llama-3.1-8B"] == DEMAND.traffic.per_second


def test_on_one_type_it_is_what_the_planner_of_one_type_finds() -> None:
    cluster, said = Cluster(1, 2, "l40s-48gb"), {"target": TARGET, "space": SMALL, "effort": ALL}
    cost = {"costs": lambda d: linear(False)}
    one = plan(cluster, [DEMAND], objective="rate", **said, **cost).plan
    mixed = plan_fleet(cluster, [DEMAND], objective="rate", **said, **cost).plan
    key = "highest_load_factor"
    assert mixed.predicted_per_model["Llama-3.1-8B"][key] == one.predicted_per_model["Llama-3.1-8B"][key]


def test_more_devices_serve_no_less_and_a_type_more_is_used() -> None:
    said: dict[str, Any] = {"target": TARGET, "space": SMALL, "effort": ALL, "costs": by_type}
    whole = plan_highest(FLEET, [DEMAND], **said).load
    alone = plan_highest(MixedCluster(FLEET.pools[:1]), [DEMAND], **said).load
    assert whole > 1.1 * alone


def test_a_limit_that_nothing_keeps_is_said() -> None:
    strict = LLMDemand(LLAMA, DrawnTraffic(ALPACA, 60.0, 20), 1e-6, TPOT)
    with pytest.raises(InfeasibleError, match=r"not reached on .* at any load, not even by requests that never meet"):
        plan_highest(FLEET, [strict], target=TARGET, space=SMALL, effort=ALL, costs=by_type)


def test_several_models_and_other_doors_are_refused() -> None:
    other = LLMDemand(decoder("qwen2.5-7b"), DrawnTraffic(ALPACA, 6.0, 20), TTFT, TPOT)
    with pytest.raises(InputError, match="rate: is looked for of one model on several device types"):
        plan_highest(FLEET, [DEMAND, other])
    with pytest.raises(InputError, match="plan_highest looks for it"):
        plan_mixed(FLEET, [DEMAND], objective="rate")
