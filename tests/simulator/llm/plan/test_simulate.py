"""Plans of LLM serving, simulated: the same as their deployments by hand; groups; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meshwright import traces
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import Iteration, LinearCost, decoder, iteration_cost
from meshwright.simulator import Cluster
from meshwright.simulator.llm import (
    Deployment,
    LLMPlan,
    LLMTrace,
    ServedModel,
    draw,
    simulate_llm,
    simulate_plan,
    simulate_shared,
)
from meshwright.simulator.llm.shared import SharedEngine
from meshwright.simulator.serving.plan.file import PlannerEntry

A, B = "Llama-3.1-8B", "Qwen2.5-7B"
OPTIONS = {"max_model_len": 1024, "max_num_batched_tokens": 1024, "max_num_seqs": 64, "enable_prefix_caching": False}
LINEAR = LinearCost(base_s=0.01, token_s=1e-4, context_s=1e-6)


class Own:
    """A cost that nobody compiled."""

    def seconds(self, iteration: Iteration) -> float:
        return LINEAR.seconds(iteration)


def deployment(name: str, model: str, devices: tuple[tuple[int, ...], ...], **fields: Any) -> Deployment:
    said = {"config": OPTIONS, "num_blocks": 400, "replicas": len(devices), **fields}
    return Deployment(name=name, model=model, devices=devices, **said)


def plan_of(*deployments: Deployment, router: str = "round_robin", **limits: float) -> LLMPlan:
    names = list(dict.fromkeys(d.model for d in deployments))
    return LLMPlan.of(
        Cluster(1, 8, "h100-80gb"),
        tuple(ServedModel.of(decoder(n), **limits) for n in names),
        deployments,
        planner=PlannerEntry(name="hand"),
        router=router,
    )


def traffic(seed: int = 0, n: int = 80) -> LLMTrace:
    return draw([30, 200, 80], [40, 10, 120], n, rate=12.0, seed=seed)


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
def test_one_deployment_is_simulate_llm(router: str) -> None:
    plan = plan_of(deployment("x", A, ((0, 1), (2, 3)), tp=2), router=router, slo_ttft_s=0.05, slo_tpot_s=0.006)
    found = simulate_plan(plan, traffic())
    by_hand = simulate_llm(
        traffic(),
        config=OPTIONS | {"num_blocks": 400},
        cost=iteration_cost(decoder(A), device("h100-80gb"), tp=2),
        engines=2,
        router=router,
    )
    np.testing.assert_array_equal(found.results[A].finish, by_hand.finish)
    assert found.attainment == by_hand.attainment(ttft=0.05, tpot=0.006)
    assert found.goodput == pytest.approx(by_hand.goodput(ttft=0.05, tpot=0.006))
    assert found.summary()["goodput_per_device"] == pytest.approx(found.goodput / 4)


def test_pipeline_is_batches_in_flight_that_divide_the_memory() -> None:
    plan = plan_of(deployment("x", A, ((0, 1),), pp=2))
    found = simulate_plan(plan, traffic(), costs=lambda d: LINEAR)
    by_hand = simulate_llm(traffic(), config=OPTIONS | {"num_blocks": 200, "max_num_seqs": 32}, cost=LINEAR, engines=2)
    np.testing.assert_array_equal(found.results[A].finish, by_hand.finish)


def test_fast_compiles_however_short_and_falls_back() -> None:
    plan = plan_of(deployment("x", A, ((0,), (1,))))
    one, two = (simulate_plan(plan, traffic(), costs=lambda d: LINEAR, engine=e) for e in ("fast", "simpy"))
    assert (one.made_by, two.made_by) == ("compiled", "reference")
    np.testing.assert_array_equal(one.results[A].finish, two.results[A].finish)
    other = simulate_plan(plan, traffic(), costs=lambda d: Own(), engine="fast")
    assert other.made_by == "reference"
    np.testing.assert_array_equal(other.results[A].finish, one.results[A].finish)


def test_models_on_their_own_devices_do_not_touch_each_other() -> None:
    both = plan_of(deployment("x", A, ((0,),)), deployment("y", B, ((1,), (2,))))
    found = simulate_plan(both, {A: traffic(0), B: traffic(1)}, costs=lambda d: LINEAR)
    alone = simulate_plan(plan_of(deployment("y", B, ((1,), (2,)))), traffic(1), costs=lambda d: LINEAR)
    np.testing.assert_array_equal(found.results[B].finish, alone.results[B].finish)
    good = sum(found.good(m) for m in (A, B))
    assert found.attainment == good / 160
    low = min(r.arrival.min() for r in found.results.values())
    high = max(r.arrival.max() for r in found.results.values())
    assert found.goodput == pytest.approx(good / (high - low))


def test_models_on_the_same_devices_take_turns() -> None:
    half = {"gpu_memory_utilization": 0.45}
    plan = plan_of(deployment("x", A, ((0,),), **half), deployment("y", B, ((0,),), **half))
    found = simulate_plan(plan, {A: traffic(0), B: traffic(1)}, costs=lambda d: LINEAR)
    by_hand = simulate_shared(
        {A: traffic(0), B: traffic(1)},
        [SharedEngine(m, 0, "vllm-v1", OPTIONS | {"num_blocks": 400}, LINEAR) for m in (A, B)],
    )
    for model in (A, B):
        np.testing.assert_array_equal(found.results[model].finish, by_hand[model].finish)
    frame = found.per_deployment()
    assert frame.loc["x", "requests"] == 80
    assert 0 < frame.loc["x", "busy"] < 1
    assert found.made_by == "reference"
    fast = simulate_plan(plan, {A: traffic(0), B: traffic(1)}, costs=lambda d: LINEAR, engine="compiled")
    assert fast.made_by == "compiled"
    for model in (A, B):
        np.testing.assert_allclose(fast.results[model].finish, by_hand[model].finish, rtol=1e-9)
    with pytest.raises(InputError, match="a cost of type Own is not compiled"):
        simulate_plan(plan, {A: traffic(0), B: traffic(1)}, costs=lambda d: Own(), engine="compiled")


def test_unlike_engines_of_one_model() -> None:
    plan = plan_of(deployment("x", A, ((0,),)), deployment("y", A, ((1, 2),), tp=2, num_blocks=900))
    found = simulate_plan(plan, traffic(), costs=lambda d: LINEAR).per_deployment()
    assert found["requests"].tolist() == [40, 40]


def test_traces_say_the_models_themselves() -> None:
    plan = plan_of(deployment("x", A, ((0,),)), deployment("y", B, ((1,),)))
    trace = traces.Trace(
        arrival=[0.0, 1.0, 2.0], model=[0, 1, 0], models=(B, A), prompt_tokens=[8, 9, 10], output_tokens=[1, 2, 3]
    )
    found = simulate_plan(plan, trace, costs=lambda d: LINEAR)
    assert len(found.results[B]) == 2
    assert found.results[A].trace.prompt_tokens.tolist() == [9]
    assert found.per_model().loc[B, "requests"] == 2


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ({"C": traffic()}, "serves no model 'C'; it serves"),
        ({}, "no request at all"),
        (traffic(), "give a mapping from model to requests"),
    ],
)
def test_bad_requests(requests: Any, said: str) -> None:
    plan = plan_of(deployment("x", A, ((0,),)), deployment("y", B, ((1,),)))
    with pytest.raises(InputError, match=said):
        simulate_plan(plan, requests)


def test_a_model_that_nobody_serves() -> None:
    plan = LLMPlan.of(
        Cluster(1, 8, "h100-80gb"),
        (ServedModel.of(decoder(A)), ServedModel.of(decoder(B))),
        (deployment("x", A, ((0,),)),),
        planner=PlannerEntry(name="hand"),
    )
    with pytest.raises(InputError, match=r"no engine serves 'Qwen2.5-7B', which has 80 requests"):
        simulate_plan(plan, {B: traffic()})
