"""LoRA adapters under today's vLLM: who is admitted, what slots hold, what a step waits for."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, decoder
from meshwright.simulator.llm import LLMTrace, drive, simulate, simulate_llm
from meshwright.simulator.llm.memory.adapters import AdapterCost, AdapterSlots, adapter_bytes
from meshwright.simulator.llm.options import SimulateOptions
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Scheduler

SMALL = {"num_blocks": 100, "block_size": 4, "max_model_len": 64, "max_num_batched_tokens": 64}


def asked(name, prompt, output, lora=None, at=0, **more):
    return {"id": name, "arrive_step": at, "prompt": prompt, "output": output, "lora": lora, **more}


def run(requests, **config):
    return drive("vllm-v1", {**SMALL, **config}, requests)


def test_who_has_no_slot_waits_and_others_pass():
    """vLLM's ``Scheduler.schedule``: a request whose adapter would be one too many is skipped and keeps its place."""
    steps = run(
        [asked("a", 4, 2, "x"), asked("b", 4, 2, "y"), asked("c", 4, 1, "x"), asked("d", 4, 1)], max_loras=1
    )  # fmt: skip
    assert steps[0]["scheduled"] == {"a": 4, "c": 4, "d": 4}
    assert steps[0]["waiting"] == ["b"]
    assert steps[1]["scheduled"] == {"a": 1}  # x is still in use
    assert steps[2]["scheduled"] == {"b": 4}
    assert [s["new"] for s in steps] == [["a", "c", "d"], [], ["b"], []]


def test_skipped_requests_stay_in_order():
    """``test_prepend_skipped_requests_order``: what was skipped is put back in front, in the order it had."""
    requests = [asked(str(k), 4, 6, "xyz"[k % 3], at=int(k > 2)) for k in range(9)]
    steps = run(requests, max_loras=1, max_num_batched_tokens=8)
    assert steps[0]["scheduled"] == {"0": 4}
    assert steps[0]["waiting"] == ["1", "2"]
    assert steps[1]["scheduled"] == {"0": 1, "3": 4, "6": 3}  # the rest of the budget
    assert steps[1]["waiting"] == ["1", "2", "4", "5", "7", "8"]
    assert sorted(name for s in steps for name in s["finished"]) == [str(k) for k in range(9)]


def test_an_adapter_counts_while_its_request_awaits_its_token():
    """``test_max_loras_counts_running_request_awaiting_output``: a runs and is in no batch, and keeps its slot."""
    scheduler = V1Scheduler(V1Config(**SMALL, max_loras=1, pipeline_parallel_size=2))
    a = scheduler.add(LLMRequest("a", 8, 9, lora=1))
    first = scheduler.schedule()
    assert first.scheduled == {a: 8}
    b = scheduler.add(LLMRequest("b", 8, 9, lora=2))
    assert scheduler.schedule().scheduled == {}
    assert scheduler.waiting == [b]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_no_step_has_more_adapters_than_slots(policy):
    rng = np.random.default_rng(4)
    lora = rng.integers(-1, 6, 60)
    requests = [
        asked(k, int(rng.integers(1, 30)), int(rng.integers(1, 20)), None if lora[k] < 0 else int(lora[k]), at=k // 3,
              priority=int(rng.integers(3)))
        for k in range(60)
    ]  # fmt: skip
    steps = run(requests, max_loras=2, policy=policy, num_blocks=40)
    for s in steps:
        assert len({int(lora[k]) for k in s["running"]} - {-1}) <= 2
    assert sorted(k for s in steps for k in s["finished"]) == list(range(60))
    assert any(s["preempted"] for s in steps)


def test_slots_keep_what_was_used_last():
    """`LRUCacheWorkerLoRAManager`: two slots, three places on the host."""
    slots = AdapterSlots(2, 3)
    assert slots.use(["a", "b", "a"]) == (2, 2)
    assert slots.use(["b"]) == (0, 0)
    assert slots.use(["c"]) == (1, 1)  # in a's slot; a stays on the host
    assert slots.use(["a"]) == (0, 1)  # in b's
    assert slots.use(["d", "a"]) == (1, 1)  # b leaves the host, d takes c's slot
    assert slots.use(["b"]) == (1, 1)
    assert AdapterSlots(2).use([]) == (0, 0)


def test_no_adapter_of_a_step_makes_way_for_another():
    rng = np.random.default_rng(0)
    slots = AdapterSlots(4, 5)
    for _ in range(300):
        step = rng.permutation(9)[: rng.integers(1, 5)].tolist()
        slots.use(step)
        assert slots.use(step) == (0, 0)


def test_steps_wait_for_their_adapters():
    """A step of 1 s that reads an adapter takes 1 + 0.5 + 0.25 s; one that finds it on the host 1.25 s."""
    trace = LLMTrace([0.0, 10.0, 20.0, 30.0], [4] * 4, [1] * 4, lora=[0, 0, 1, 0])
    config = {**SMALL, "max_loras": 1, "max_cpu_loras": 2}
    plain = simulate_llm(trace, config=config, cost=ConstantCost(1.0))
    timed = simulate_llm(
        trace, config=config, cost=ConstantCost(1.0), options=SimulateOptions(adapters=AdapterCost(0.5, 0.25))
    )
    assert (plain.finish - trace.arrival).tolist() == [1, 1, 1, 1]
    assert (timed.finish - trace.arrival).tolist() == [1.75, 1, 1.75, 1.25]


def test_bytes_of_an_adapter():
    """Llama-3.1-8B, rank 16 on all linear layers: 41,943,040 numbers (PEFT prints so many trainable parameters)."""
    assert adapter_bytes(decoder("Llama-3.1-8B"), 16) == 2 * 41_943_040
    cost = AdapterCost.of(decoder("Llama-3.1-8B"), 16, tp=2, disk=1e9, bandwidth=1e10)
    assert cost.seconds(1, 1) == pytest.approx(0.08388608 + 0.004194304)
    with pytest.raises(InputError, match="rank: expected an integer >= 1"):
        adapter_bytes(decoder("Llama-3.1-8B"), 0)


@pytest.mark.parametrize("engine", ["auto", "compiled"])
def test_the_compiled_engine_leaves_adapters_to_the_reference(engine, monkeypatch):
    monkeypatch.setattr(simulate, "WORTH_TOKENS", 1000)
    trace = LLMTrace([0.0], [600], [1000], lora=[3])
    config = {"num_blocks": 200, "max_model_len": 2000, "max_loras": 1}
    if engine == "compiled":
        with pytest.raises(InputError, match="max_loras is not compiled"):
            simulate_llm(trace, config=config, cost=ConstantCost(1.0), engine=engine)
    else:
        assert simulate_llm(trace, config=config, cost=ConstantCost(1.0), engine=engine).made_by == "reference"


@pytest.mark.parametrize(
    ("policy", "config", "says"),
    [
        ("vllm-v1", SMALL, "has no slots for adapters; give max_loras"),
        ("sarathi", {"num_gpu_blocks": 100}, "policy 'sarathi': has no adapters"),
        ("vllm-0.2", {"num_gpu_blocks": 100}, "policy 'vllm-0.2': has no adapters"),
        ("orca-max", {"num_slots": 4096, "max_model_len": 64}, "policy 'orca-max': has no adapters"),
    ],
)
def test_engines_without_adapters_refuse_them(policy, config, says):
    with pytest.raises(InputError, match=says):
        drive(policy, config, [asked("a", 4, 2, "x")])
    with pytest.raises(InputError, match=says):
        simulate_llm(LLMTrace([0.0], [4], [2], lora=[0]), policy=policy, config=config, cost=ConstantCost(1.0))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"max_loras": -1}, "max_loras: expected an integer >= 0"),
        ({"max_loras": 2, "max_cpu_loras": 1}, "max_cpu_loras: expected at least max_loras 2"),
        ({"max_cpu_loras": 1}, "max_cpu_loras: expected at least max_loras 0, and that above 0"),
    ],
)
def test_bad_options(more, says):
    with pytest.raises(InputError, match=says):
        V1Config(**{**SMALL, **more})


@pytest.mark.parametrize("said", [True, "", 1.5])
def test_bad_names(said):
    with pytest.raises(InputError, match="lora: expected text, an integer or None"):
        LLMRequest("a", 1, 1, lora=said)


def test_bad_costs():
    with pytest.raises(InputError, match="load_s: expected finite seconds >= 0"):
        AdapterCost(-1.0)
    with pytest.raises(InputError, match="adapters: expected AdapterCost with a method seconds"):
        SimulateOptions(adapters=3.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="lora: expected integers >= -1"):
        LLMTrace([0.0], [1], [1], lora=[-2])


def test_running_requests_are_capped_beside_max_num_seqs():
    """``test_max_num_active_seqs_caps_admission``: ten requests, 16 seats, 3 of them used."""
    steps = run([asked(str(k), 10, 2) for k in range(10)], max_num_seqs=16, max_num_active_seqs=3)
    assert steps[0]["new"] == ["0", "1", "2"]
    assert len(steps[0]["waiting"]) == 7
    assert max(len(s["running"]) for s in steps) == 3
    for wrong in (0, 17, True):
        with pytest.raises(InputError, match="max_num_active_seqs: expected an integer from 1 to max_num_seqs 16"):
            V1Config(**SMALL, max_num_seqs=16, max_num_active_seqs=wrong)
