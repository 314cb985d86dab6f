"""A case's further options of the scheduler, and its adapters, from the case to the exported command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.runtime.export.llm.arguments import arguments, servers
from meshwright.simulator.llm import LLMPlan, simulate_plan
from meshwright.simulator.llm.memory.adapters import AdapterCost
from meshwright.worlds.faces import case, plan

SMALL: dict[str, Any] = {
    "model": "llama-3.1-8b", "devices": 2, "device": "h100-80gb", "lengths": "alpaca", "rate": 40.0, "duration": 5.0,
    "planner": "fixed",
}  # fmt: skip


def made(**engine: Any) -> Any:
    return plan(case("llm", **SMALL, engine=engine))


def test_options_reach_the_scheduler_and_the_command() -> None:
    found = made(scheduler={"max_num_active_seqs": 8, "max_loras": 4, "max_cpu_loras": 6})
    file: LLMPlan = found.file
    (deployment,) = file.deployments
    assert deployment.config["max_num_active_seqs"] == 8
    assert deployment.options.max_loras == 4
    result = next(iter(found.simulate().results.values()))
    assert 0 < result.iterations.running.max() <= 8
    said = arguments(file, servers(file, 8000)[0], "/models/x")
    listed = {"--max-num-active-seqs=8", "--enable-lora", "--max-loras=4", "--max-cpu-loras=6", "--max-lora-rank=16"}
    assert listed <= set(said)
    plain = made().file
    assert not any("lora" in a or "active" in a for a in arguments(plain, servers(plain, 8000)[0], "/models/x"))


def test_a_pipeline_with_one_scheduler_holds_all_memory() -> None:
    apart, shared = (
        made(pipeline_parallel_size=2, scheduler=options) for options in ({}, {"pipeline_parallel_size": 2})
    )  # fmt: skip
    one, other = (next(iter(p.simulate().results.values())) for p in (apart, shared))
    assert one.iterations.engines == 2
    assert other.iterations.engines == 1
    assert other.iterations.capacity_tokens >= 2 * one.iterations.capacity_tokens - 32
    assert other.finish.max() < 1.2 * one.finish.max()
    assert shared.simulate().to_frame().served_model.nunique() == 1


def test_adapters_of_a_table_wait_for_their_slots(tmp_path: Path) -> None:
    """Ten adapters by turns in two slots: each step that brings one waits for the disk."""
    rows = "".join(f"{k * 0.05},chat,100,20,{'none' if k % 11 == 10 else f'a{k % 11}'}\n" for k in range(44))
    table = tmp_path / "requests.csv"
    table.write_text("arrival,model,prompt_tokens,output_tokens,lora\n" + rows)
    said = {k: v for k, v in SMALL.items() if k not in ("lengths", "rate", "duration")} | {"trace": str(table)}
    slow = plan(case("llm", **said, engine={"scheduler": {"max_loras": 2}}))
    result = next(iter(slow.simulate().results.values()))
    assert result.trace.lora is not None
    assert sorted(set(result.trace.lora.tolist())) == [-1, *range(10)]
    fast = plan(case("llm", **said, engine={"scheduler": {"max_loras": 10}}))
    load = AdapterCost.of(slow.file.models[0].spec, 16).load_s
    assert result.ttft(90) > next(iter(fast.simulate().results.values())).ttft(90)
    assert result.ttft(50) > load
    with pytest.raises(InputError, match="has no slots for adapters; give max_loras"):
        simulate_plan(plan(case("llm", **said | {"trace": None, "rate": 1.0, "lengths": "alpaca"})).file, result.trace)


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ({"scheduler": {"max_lora": 4}}, "max_lora: no option of vllm-v1; did you mean 'max_loras'?"),
        ({"scheduler": {"max_num_seqs": 4}}, "max_num_seqs: the engine, the model or the devices say it; leave it out"),
        ({"scheduler": {"max_loras": -1}}, "max_loras: expected an integer >= 0"),
        (
            {"scheduler": {"max_num_active_seqs": 1000}},
            "max_num_active_seqs: expected an integer from 1 to max_num_seqs",
        ),
        ({"scheduler": {"pipeline_parallel_size": 2}}, "pipeline_parallel_size: expected that of the engine, 1, or 1"),
        ({"policy": "sarathi", "scheduler": {"max_loras": 2}}, "max_loras: no option of sarathi; expected one of"),
        ({"policy": "vllm-0.6", "scheduler": {"preemption_mode": "swap"}}, "needs room on the host"),
        ({"policy": "vllm-0.6", "scheduler": {"policy": "priority"}}, "no priorities with chunked prefill"),
    ],
)
def test_wrong_options(engine: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        made(**engine)
    assert "engine.scheduler" in str(error.value)
