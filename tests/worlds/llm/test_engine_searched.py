"""What a case says of its engine holds for all that planner `vllm` tries, or is refused by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.cli import run
from meshwright.planners.vllm import SearchSpace
from meshwright.simulator.llm import LLMPlan
from meshwright.worlds.llm.case import LLMCase
from meshwright.worlds.llm.data import load_data
from meshwright.worlds.llm.data.options import ENGINE, planner_options
from meshwright.worlds.llm.engine import EngineCase
from meshwright.worlds.llm.solve import planned

CASE: dict[str, Any] = {
    "cluster": {"devices": 4, "device": "h100-80gb"},
    "model": "qwen3-30b-a3b",
    "workload": {"rate": 2, "requests": 20, "lengths": "alpaca", "slo_ttft": 1, "slo_tpot": 1},
    "planner": {"name": "vllm", "options": {"seeds": 1}},
}
SAID: dict[str, tuple[dict[str, Any], Any]] = {
    "tensor_parallel_size": ({"tensor_parallel_size": 4}, 4),
    "pipeline_parallel_size": ({"pipeline_parallel_size": 2}, 2),
    "decode_context_parallel_size": ({"tensor_parallel_size": 4, "decode_context_parallel_size": 2}, 2),
    "data_parallel_size": ({"data_parallel_size": 2}, 2),
    "enable_expert_parallel": ({"tensor_parallel_size": 2, "enable_expert_parallel": True}, True),
    "enable_eplb": ({"tensor_parallel_size": 2, "enable_expert_parallel": True, "enable_eplb": True}, True),
    "all2all_backend": (
        {
            "data_parallel_size": 2,
            "enable_expert_parallel": True,
            "all2all_backend": "deepep_high_throughput",
        },
        "deepep_high_throughput",
    ),
    "speculative_config": ({"speculative_config": {"method": "ngram", "acceptance": 0.5}}, None),
    "policy": ({"policy": "sarathi"}, "sarathi"),
    "block_size": ({"block_size": 32}, 32),
    "max_num_batched_tokens": ({"max_num_batched_tokens": 1024}, 1024),
    "max_num_seqs": ({"max_num_seqs": 64}, 64),
    "enable_chunked_prefill": ({"enable_chunked_prefill": False, "max_num_batched_tokens": 8192}, False),
    "enable_prefix_caching": ({"enable_prefix_caching": True}, True),
    "gpu_memory_utilization": ({"gpu_memory_utilization": 0.8}, 0.8),
    "precision": ({"precision": "fp8"}, "fp8"),
    "kv_precision": ({"kv_precision": "fp8"}, "fp8"),
    "scheduler": ({"scheduler": {"max_num_active_seqs": 7}}, 7),
    "router": ({"router": "least_outstanding"}, "least_outstanding"),
}
"""Field -> what an engine says, and what its deployments then have."""
HAVE: dict[str, Any] = {
    "tensor_parallel_size": lambda d: d.tp,
    "pipeline_parallel_size": lambda d: d.pp,
    "decode_context_parallel_size": lambda d: d.cp,
    "data_parallel_size": lambda d: d.dp,
    "enable_expert_parallel": lambda d: d.ep,
    "enable_eplb": lambda d: d.eplb,
    "all2all_backend": lambda d: d.all2all,
    "policy": lambda d: d.policy,
    "block_size": lambda d: d.block_size,
    "max_num_batched_tokens": lambda d: d.options.max_num_batched_tokens,
    "max_num_seqs": lambda d: d.options.max_num_seqs,
    "enable_chunked_prefill": lambda d: d.options.enable_chunked_prefill,
    "enable_prefix_caching": lambda d: d.options.enable_prefix_caching,
    "gpu_memory_utilization": lambda d: d.gpu_memory_utilization,
    "precision": lambda d: d.precision,
    "kv_precision": lambda d: d.kv_precision,
    "scheduler": lambda d: d.options.max_num_active_seqs,
}


def decided(path: Path, *changes: dict[str, Any]) -> LLMPlan:
    said: dict[str, Any] = json.loads(json.dumps(CASE))
    for change in changes:
        for section, values in change.items():
            said[section] = {**said[section], **values} if isinstance(said.get(section), dict) else values
    case = LLMCase.model_validate(said)
    return planned(case, load_data([case], path))[0]


def test_every_field_of_an_engine_is_looked_at() -> None:
    """A field that is added here is searched with, or refused."""
    assert {*SAID, "decode_engines"} == {*ENGINE, "decode_engines"} == set(EngineCase.model_fields)
    assert set(ENGINE.values()) <= set(SearchSpace.__dataclass_fields__)


@pytest.mark.parametrize("field", SAID)
def test_all_engines_that_are_tried_have_it(field: str, tmp_path: Path) -> None:
    """The plan has it, and so has every candidate: the search space holds no other value."""
    engine, value = SAID[field]
    changes: dict[str, Any] = {"engine": engine}
    if field == "decode_context_parallel_size":  # shards are of models with fewer KV heads than ranks
        changes["model"] = "qwen2.5-1.5b"
    case = LLMCase.model_validate(CASE | changes)
    space = SearchSpace(**planner_options(case)[0])
    tried = getattr(space, ENGINE[field])
    assert tried == value or len(tried) == 1
    narrow = {"tp": [2], "pp": [1], "batched_tokens": [2048]}
    options = {name: v for name, v in narrow.items() if name not in planner_options(case)[0]}
    made = decided(tmp_path, {**changes, "planner": {"options": {"seeds": 1, **options}}})
    assert made.planner.name == "vllm"
    for each in made.deployments:
        if field == "speculative_config":
            assert each.speculative is not None
            assert each.speculative.acceptance == 0.5
        elif field == "router":
            assert made.router == value
        else:
            assert HAVE[field](each) == value


PLAN = ["plan", "llm", "--model", "llama-3.1-8b", "--devices", "2", "--device", "h100-80gb", "--lengths", "alpaca",
        "--rate", "2", "--requests", "20", "-o", "seeds=1", "-o", "pp=1"]  # fmt: skip


DRAFTS = ["-s", "engine.speculative_config.method=ngram", "-s", "engine.speculative_config.acceptance=0.5"]


def test_an_option_of_the_planner_says_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the planner's own options name is tried as they say; the difference is the first thing that is said."""
    path = tmp_path / "p.json"
    asked = [*PLAN, "--max-num-batched-tokens", "1024", "--block-size", "32", "-o", "tp=1", "--out", str(path)]
    assert run([*asked, "-o", "batched_tokens=[512]"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == (
        "engine.max_num_batched_tokens: 1024 is not all that is tried: planner.options.batched_tokens says [512]"
    )
    (each,) = LLMPlan.load(path).deployments
    assert (each.options.max_num_batched_tokens, each.block_size) == (512, 32)
    assert run([*asked, "-o", "batched_tokens=1024"]) == 0
    assert "not all" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--decode-engines", "1"], "engine.decode_engines: planner vllm chooses how many engines only decode"),
        (["--enable-expert-parallel"], "engine.enable_expert_parallel: Llama-3.1-8B has no experts; leave it out"),
        (["-s", 'engine.scheduler={"nothing": 1}'], "engine.scheduler: nothing: no option of vllm-v1"),
        (["-o", "scheduler=3"], "planner.options: space: scheduler: expected options by name (got 3)"),
        (["-o", "disaggregate=only", *DRAFTS], "handed over"),
    ],
)
def test_what_cannot_be_searched_with_is_one_line(more: list[str], why: str, capsys: Any) -> None:
    assert run([*PLAN, *more]) in (2, 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("cp", ["--tensor-parallel-size", "2", "--decode-context-parallel-size", "2"]),
        ("prefix_caching", ["--enable-prefix-caching"]),
        ("routers", ["--router", "random"]),
        ("scheduler", ["-s", 'engine.scheduler={"max_num_active_seqs": 3}']),
        ("speculative", [*DRAFTS]),
        ("disaggregate", ["-o", "disaggregate=only"]),
    ],
)
def test_models_that_share_devices_say_what_they_are_not_planned_with(field: str, said: list[str], capsys: Any) -> None:
    assert run([*PLAN, "--model", "llama-3.2-1b,qwen2.5-1.5b", "-o", "share=true", *said]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"space: {field}: models that share devices are not planned with it" in line


def test_a_refusal_names_the_engine_that_is_nearest_to_fitting(capsys: Any) -> None:
    """Not the last that was tried: that one leaves the node, whatever the memory."""
    asked = ["plan", "llm", "--model", "llama-3.1-70b", "--devices", "2", "--device", "l40s-48gb", "--rate", "1"]
    assert run([*asked, "--requests", "20", "-o", "tp=[1,2,8]", "-o", "pp=1"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "; the nearest: TP2, 512 tokens a step" in line
    assert "GiB a device short; smallest change: allow TP" in line
