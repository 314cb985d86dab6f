"""Engines that share devices: alone they are `simulate_llm`, together they take turns and nothing runs twice."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import ConstantCost, LinearCost, decoder, iteration_cost
from meshwright.simulator.llm import LLMTrace, draw, simulate_llm
from meshwright.simulator.llm.shared import SharedEngine, simulate_shared

LINEAR = LinearCost(base_s=0.01, token_s=1e-4, context_s=1e-6)
OPTIONS = {"num_blocks": 120, "max_model_len": 512, "max_num_batched_tokens": 256, "max_num_seqs": 16}


def engine(model: str, group: object = 0, cost: object = LINEAR, stages: int = 1, **options: object) -> SharedEngine:
    return SharedEngine(model, group, "vllm-v1", OPTIONS | options, cost, stages)  # pyright: ignore[reportArgumentType]


def traffic(seed: int, rate: float = 8.0, n: int = 60) -> LLMTrace:
    return draw([20, 150, 60], [40, 10, 90], n, rate=rate, seed=seed)


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding", "random"])
def test_engines_alone_are_simulate_llm(router: str) -> None:
    """Preemption included: 40 blocks are few for 16 sequences."""
    asked, few = traffic(0, rate=80.0), OPTIONS | {"num_blocks": 40}
    alone = simulate_llm(asked, config=few, cost=LINEAR, engines=2, router=router, engine="simpy")
    shared = simulate_shared({"a": asked}, [engine("a", g, num_blocks=40) for g in (0, 1)], router=router)["a"]
    for name in ("arrival", "scheduled", "first_token", "finish", "generated", "preemptions", "engine"):
        np.testing.assert_array_equal(getattr(shared, name), getattr(alone, name), err_msg=name)
    np.testing.assert_array_equal(shared.iterations.end, alone.iterations.end)
    np.testing.assert_array_equal(shared.iterations.used_tokens, alone.iterations.used_tokens)
    assert alone.preemptions.sum() > 0
    assert shared.policy == "vllm-v1"


def test_a_policy_that_reads_the_clock_has_its_groups_clock() -> None:
    few = {"num_gpu_blocks": 40, "max_model_len": 512, "max_num_batched_tokens": 512, "delay_factor": 0.5}
    asked = traffic(0, rate=80.0)
    alone = simulate_llm(asked, policy="vllm-0.6", config=few, cost=LINEAR, engine="simpy")
    shared = simulate_shared({"a": asked}, [SharedEngine("a", 0, "vllm-0.6", few, LINEAR)])["a"]
    np.testing.assert_array_equal(shared.finish, alone.finish)
    assert alone.preemptions.sum() > 0


def test_another_model_without_requests_under_way_changes_nothing() -> None:
    """The second model's requests come when the first model is long done."""
    asked = traffic(0)
    late = LLMTrace([1e4], [10], [5])
    alone = simulate_llm(asked, config=OPTIONS, cost=LINEAR, engine="simpy")
    both = simulate_shared({"a": asked, "b": late}, [engine("a"), engine("b")])
    np.testing.assert_array_equal(both["a"].finish, alone.finish)
    one = simulate_llm(late, config=OPTIONS, cost=LINEAR, engine="simpy")
    np.testing.assert_array_equal(both["b"].finish, one.finish)


def test_two_models_take_turns_by_hand() -> None:
    """Iterations of 1 s (a) and 10 s (b), both from 0 on: a, b, a, b, then a alone."""
    both = simulate_shared(
        {"a": LLMTrace([0.0], [8], [4]), "b": LLMTrace([0.0], [8], [2])},
        [engine("a", cost=ConstantCost(1.0)), engine("b", cost=ConstantCost(10.0))],
    )
    assert both["a"].token_times(0).tolist() == [1.0, 12.0, 23.0, 24.0]
    assert both["b"].token_times(0).tolist() == [11.0, 22.0]


def test_who_arrives_during_a_strangers_iteration_joins_the_next_one_of_its_own() -> None:
    both = simulate_shared(
        {"a": LLMTrace([0.0, 0.5], [8, 8], [1, 1]), "b": LLMTrace([0.1], [8], [1])},
        [engine("a", cost=ConstantCost(1.0)), engine("b", cost=ConstantCost(1.0))],
    )
    assert both["a"].finish.tolist() == [1.0, 3.0]
    assert both["b"].finish.tolist() == [2.0]


def test_a_group_computes_one_thing_at_a_time_and_is_never_idle_with_work() -> None:
    models = {name: traffic(seed, rate=6.0) for seed, name in enumerate("abc")}
    found = simulate_shared(models, [engine(name) for name in models])
    start = np.concatenate([r.iterations.start for r in found.values()])
    end = np.concatenate([r.iterations.end for r in found.values()])
    order = np.argsort(start)
    start, end = start[order], end[order]
    assert (start[1:] >= end[:-1]).all()
    assert all(np.isfinite(r.finish).all() for r in found.values())
    asked = np.concatenate([r.arrival for r in found.values()])
    done = np.concatenate([r.finish for r in found.values()])
    for low, high in zip(end[:-1], start[1:], strict=True):
        if high > low:  # idle: nobody was there
            assert not ((asked < high) & (done > low + 1e-12)).any()


def test_names_and_their_order_of_models_do_not_matter_for_turns_of_equals() -> None:
    one = simulate_shared({"a": traffic(0), "b": traffic(1)}, [engine("a"), engine("b")])
    two = simulate_shared({"x": traffic(0), "y": traffic(1)}, [engine("x"), engine("y")])
    np.testing.assert_array_equal(one["a"].finish, two["x"].finish)
    np.testing.assert_array_equal(one["b"].finish, two["y"].finish)


def test_time_scales() -> None:
    slow = LinearCost(base_s=0.02, token_s=2e-4, context_s=2e-6)
    a, b = traffic(0), traffic(1)
    fast = simulate_shared({"a": a, "b": b}, [engine("a"), engine("b")])
    twice = simulate_shared(
        {n: LLMTrace(2 * t.arrival, t.prompt_tokens, t.output_tokens) for n, t in (("a", a), ("b", b))},
        [engine("a", cost=slow), engine("b", cost=slow)],
    )
    np.testing.assert_allclose(twice["a"].finish, 2 * fast["a"].finish, rtol=1e-9)


def test_pipeline_by_hand() -> None:
    """Two stages of 1 s: two requests, each in a batch of its own, follow each other at a distance of one stage."""
    found = simulate_shared({"a": LLMTrace([0, 0], [8, 8], [2, 2])}, [engine("a", cost=ConstantCost(2.0), stages=2)])
    assert found["a"].token_times(0).tolist() == [2.0, 4.0]
    assert found["a"].token_times(1).tolist() == [3.0, 5.0]


def test_stage_seconds_are_those_of_the_cost() -> None:
    cost = iteration_cost(decoder("llama-3.1-8b"), device("h100-80gb"), pp=4)
    from meshwright.profiles.llm import Iteration

    step = Iteration((), 32, 32_000, 32)
    stages = engine("a", cost=cost, stages=4).stage_seconds(step)
    assert sum(stages) == pytest.approx(cost.seconds(step))
    assert max(stages) == stages[-1] == pytest.approx(cost.interval(step))


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        ([], "no engine serves 'a'"),
        ([("a", 0, 1), ("b", 0, 2)], "have 1 and 2 stages"),
    ],
)
def test_bad_input(engines: list[tuple[str, int, int]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        simulate_shared({"a": traffic(0)}, [engine(m, g, stages=s) for m, g, s in engines])


def test_bad_engines() -> None:
    with pytest.raises(InputError, match="cannot schedule ahead"):
        engine("a", async_scheduling=True)
    with pytest.raises(InputError, match="did you mean 'block_size'"):
        engine("a", blocksize=16)
    with pytest.raises(InputError, match="a: request 0: its prompt of 600 tokens"):
        simulate_shared({"a": LLMTrace([0], [600], [1])}, [engine("a")])
