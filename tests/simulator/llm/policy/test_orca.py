"""Orca and FasterTransformer, step by step: who joins, who leaves, what is padded; what holds after every step."""

from __future__ import annotations

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm.linear import ConstantCost
from meshwright.simulator.llm import LLMRequest, drive, simulate_llm
from meshwright.simulator.llm.memory.contiguous import ContiguousConfig
from meshwright.simulator.llm.policy.fastertransformer import FasterTransformerScheduler
from meshwright.simulator.llm.policy.orca import RESERVES, OrcaScheduler
from meshwright.traces.lengths import length_profile


def run(scheduler, requests):
    """What each step schedules, and whom it finishes; arrivals are steps."""
    requests, log, step = list(requests), [], 0
    while requests or scheduler.waiting or scheduler.running:
        while requests and requests[0].arrival <= step:
            scheduler.add(requests.pop(0))
        decision = scheduler.schedule()
        entry = (decision.kind, [r.request.id for r in decision.scheduled], decision.num_batched_tokens)
        log.append((*entry, [r.request.id for r in scheduler.complete(decision)]))
        step += 1
        assert step < 100_000
    return log


def test_orca_lets_requests_join_and_leave_after_any_iteration():
    orca = OrcaScheduler(ContiguousConfig(64, max_model_len=32), "oracle")
    requests = [LLMRequest("a", 4, 3), LLMRequest("b", 6, 1), LLMRequest("c", 5, 2, arrival=1)]
    assert run(orca, requests) == [
        ("prompt", ["a", "b"], 10, ["b"]),
        ("mixed", ["a", "c"], 6, []),
        ("decode", ["a", "c"], 2, ["a", "c"]),
    ]


def test_orca_serves_first_come_first_served_without_bypass():
    orca = OrcaScheduler(ContiguousConfig(32, max_model_len=32), "oracle")
    # b needs the whole memory: c, which would fit, waits behind it.
    requests = [LLMRequest("a", 4, 2), LLMRequest("b", 20, 1), LLMRequest("c", 1, 1)]
    assert [entry[1] for entry in run(orca, requests)] == [["a"], ["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("reserve", "prompt", "output", "slots"),
    [("max", 10, 25, 2048), ("pow2", 10, 25, 42), ("oracle", 10, 25, 35), ("pow2", 10, 32, 42), ("pow2", 10, 1, 11)],
)
def test_what_is_reserved(reserve, prompt, output, slots):
    """§5.6.1: for an output of 25, Pow2 reserves 32."""
    assert RESERVES[reserve](prompt, output, 2048) == slots
    assert RESERVES["pow2"](1000, 1030, 2048) == 2048  # never more than the model takes


@pytest.mark.parametrize(("reserve", "batch"), [("max", 7), ("pow2", 122), ("oracle", 122)])
def test_how_many_fit_in_the_memory_of_an_opt_13b(reserve, batch):
    orca = OrcaScheduler(ContiguousConfig(15_728), reserve)
    for k in range(200):
        orca.add(LLMRequest(k, 64, 40))  # 64 + 64 or 64 + 40 slots: chunks of 128 either way
    assert len(orca.schedule().scheduled) == batch


def test_samples_take_a_chunk_each_all_or_none():
    orca = OrcaScheduler(ContiguousConfig(64, max_model_len=16), "max")
    requests = [LLMRequest("a", 4, 2, best_of=3), LLMRequest("b", 4, 2, best_of=2)]
    log = run(orca, requests)
    assert [entry[:3] for entry in log] == [
        ("prompt", ["a"], 12), ("decode", ["a"], 3), ("prompt", ["b"], 8), ("decode", ["b"], 2),
    ]  # fmt: skip
    assert orca.memory.free_slots == 64


def test_max_num_seqs_bounds_the_batch():
    orca = OrcaScheduler(ContiguousConfig(1024, max_model_len=16, max_num_seqs=2), "oracle")
    assert [entry[1] for entry in run(orca, [LLMRequest(k, 2, 1) for k in range(3)])] == [[0, 1], [2]]


def test_fastertransformer_runs_a_batch_to_its_longest_output():
    engine = FasterTransformerScheduler(ContiguousConfig(70, max_model_len=32))
    assert engine.max_batch_size == 2
    requests = [LLMRequest("a", 4, 1), LLMRequest("b", 6, 3), LLMRequest("c", 5, 2), LLMRequest("d", 1, 1, arrival=4)]
    # Prompts are padded to the longest, a's row runs on though it is done, c does not join; d arrives too late for c.
    assert run(engine, requests) == [
        ("prompt", ["a", "b"], 12, []),
        ("decode", ["a", "b"], 2, []),
        ("decode", ["a", "b"], 2, ["a", "b"]),
        ("prompt", ["c"], 5, []),
        ("decode", ["c"], 1, ["c"]),
        ("prompt", ["d"], 1, ["d"]),
    ]


def test_what_the_model_computes_is_padded():
    engine = FasterTransformerScheduler(ContiguousConfig(70, max_model_len=32))
    for name, prompt, output in (("a", 4, 1), ("b", 6, 3)):
        engine.add(LLMRequest(name, prompt, output))
    first = engine.schedule()
    assert first.iteration.prefill == ((6, 0), (6, 0))
    engine.complete(first)
    assert (engine.schedule().iteration.decodes, engine.schedule().iteration.context) == (2, 2 * 7)


def test_what_orca_computes_is_not():
    orca = OrcaScheduler(ContiguousConfig(64, max_model_len=32), "oracle")
    orca.add(LLMRequest("a", 4, 3))
    orca.complete(orca.schedule())
    orca.add(LLMRequest("b", 6, 2))
    iteration = orca.schedule().iteration
    assert (iteration.prefill, iteration.decodes, iteration.context, iteration.outputs) == (((6, 0),), 1, 5, 2)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ContiguousConfig(0), "num_slots"),
        (lambda: OrcaScheduler(ContiguousConfig(64), "orcale"), "did you mean 'oracle'"),
        (lambda: OrcaScheduler(ContiguousConfig(64)).add(LLMRequest("a", 1, 1)), "num_slots 64 holds 0"),
        (lambda: OrcaScheduler(ContiguousConfig(4096)).add(LLMRequest("a", 2000, 49)), "max_model_len 2048"),
        (lambda: OrcaScheduler(ContiguousConfig(4096)).add(LLMRequest("a", 1, 1, best_of=3)), "needs 3 contiguous"),
        (lambda: OrcaScheduler(ContiguousConfig(9999, 2048, 2)).add(LLMRequest("a", 1, 1, best_of=3)), "wait for ever"),
        (lambda: FasterTransformerScheduler(ContiguousConfig(2047)), "no room for one sequence"),
        (lambda: FasterTransformerScheduler(ContiguousConfig(2048)).add(LLMRequest("a", 1, 1, 0, 2)), "batch of 1"),
    ],
)  # fmt: skip
def test_bad_input(make, says):
    with pytest.raises(InputError, match=says):
        make()


REQUESTS = st.lists(
    st.tuples(st.integers(1, 20), st.integers(1, 12), st.integers(0, 20), st.integers(1, 2)), min_size=1, max_size=12
)


@given(REQUESTS, st.sampled_from([*RESERVES, "fastertransformer"]), st.integers(64, 200))
@settings(max_examples=examples(30, anew=80), deadline=None)
def test_everything_finishes_once_and_no_slot_is_lost(drawn, policy, slots):
    config = ContiguousConfig(slots, max_model_len=32)
    scheduler = FasterTransformerScheduler(config) if policy == "fastertransformer" else OrcaScheduler(config, policy)
    at = sorted(arrival for *_, arrival, _ in drawn)
    log = run(scheduler, [LLMRequest(k, p, o, at[k], n) for k, (p, o, _, n) in enumerate(drawn)])
    finished = [name for *_, names in log for name in names]
    assert sorted(finished) == list(range(len(drawn)))
    first = [name for _, names, _, _ in log for name in names]
    assert list(dict.fromkeys(first)) == sorted(finished)  # first come, first served
    steps = {k: sum(k in names for _, names, _, _ in log) for k in finished}
    for k, (_, output, _, _) in enumerate(drawn):
        assert steps[k] >= output if policy == "fastertransformer" else steps[k] == output
    if policy != "fastertransformer":
        assert scheduler.memory.free_slots == slots


def test_the_baselines_can_be_driven_step_by_step():
    requests = [{"id": "a", "prompt": 10, "output": 2}, {"id": "b", "prompt": 3, "output": 1, "arrive_step": 1}]
    steps = drive("orca-pow2", {"num_slots": 40, "max_model_len": 32}, requests)
    assert steps[0] == {
        "step": 0, "kind": "prompt", "scheduled": ["a"], "num_batched_tokens": 10, "waiting": [], "running": ["a"],
        "slots": {"a": 16}, "free_slots": 24, "finished": [],
    }  # fmt: skip
    assert (steps[1]["kind"], steps[1]["slots"], steps[1]["finished"]) == ("mixed", {"a": 16, "b": 4}, ["a", "b"])
    waits = drive("fastertransformer", {"num_slots": 40, "max_model_len": 32}, requests)
    assert [(s["scheduled"], s["waiting"], s["free_slots"]) for s in waits] == [
        (["a"], [], 8), (["a"], ["b"], 8), (["b"], [], 8),
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"request 'a': needs a contiguous chunk for 32 tokens; num_slots 20 holds 0"):
        drive("orca-max", {"num_slots": 20, "max_model_len": 32}, requests)
    with pytest.raises(InputError, match="did you mean 'num_slots'"):
        drive("orca-max", {"num_slot": 20}, requests)


def test_the_engine_runs_them_too():
    requests = [LLMRequest("a", 4, 3), LLMRequest("b", 6, 1), LLMRequest("c", 5, 2, arrival=0.5)]
    orca = simulate_llm(
        requests, policy="orca-oracle", config={"num_slots": 64, "max_model_len": 32}, cost=ConstantCost(1.0)
    )
    assert orca.finish.tolist() == [3.0, 1.0, 3.0]
    assert orca.first_token.tolist() == [1.0, 1.0, 2.0]
    static = simulate_llm(
        requests, policy="fastertransformer", config={"num_slots": 64, "max_model_len": 32}, cost=ConstantCost(1.0)
    )
    # b is done after one iteration, and c is there: both wait for a's third token.
    assert static.finish.tolist() == [3.0, 3.0, 5.0]
    with pytest.raises(InputError, match="longer than max_model_len 32"):
        simulate_llm([LLMRequest("a", 30, 3)], policy="orca-max", config={"num_slots": 64, "max_model_len": 32},
                     cost=ConstantCost(1.0))  # fmt: skip


def test_orca_keeps_up_where_fastertransformer_cannot():
    """Saturated, seven rows each: Orca gives a token per row and iteration, a static batch waits for its longest."""
    drawn = length_profile("sharegpt").sample(42, seed=1)
    requests = [LLMRequest(k, int(p), int(o)) for k, (p, o) in enumerate(zip(drawn.prompt, drawn.output, strict=True))]
    spans = {}
    for policy in ("orca-max", "fastertransformer"):
        result = simulate_llm(requests, policy=policy, config={"num_slots": 15_728}, cost=ConstantCost(1.0))
        spans[policy] = np.nanmax(result.finish)
    # Work conservation: at least the tokens over seven rows, and no more than the longest beyond it.
    least = drawn.output.sum() / 7
    assert least <= spans["orca-max"] <= least + drawn.output.max()
    batches = drawn.output.reshape(6, 7).max(axis=1)
    assert spans["fastertransformer"] == batches.sum()
