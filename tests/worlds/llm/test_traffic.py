"""What cases of the LLM world say of their traffic: files as they are published, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.simulator.llm import LLMPlan
from meshwright.worlds.faces import case, plan

OPTIONS = {"tp": [1], "pp": 1, "batched_tokens": [2048], "seeds": 1}
CASE: dict[str, Any] = {
    "model": "llama-3.1-8b", "devices": 1, "device": "h100-80gb",
    "planner": {"name": "vllm", "options": OPTIONS},
}  # fmt: skip


def mooncake(folder: Path, shared: bool) -> Path:
    """Requests every 100 ms whose prompts of 8,192 tokens begin alike, or not."""
    path = folder / "mooncake.jsonl"
    rows = [
        {
            "timestamp": 100 * k, "input_length": 8192, "output_length": 20,
            "hash_ids": [*(range(15) if shared else range(100 * k, 100 * k + 15)), 10_000 + k],
        }
        for k in range(60)
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_prefix_hashes_reach_the_planner(tmp_path: Path) -> None:
    """Where prompts share 15 of their 16 blocks the planner turns prefix caching on, and it is worth something."""
    found: dict[bool, LLMPlan] = {}
    for shared in (True, False):
        mooncake(tmp_path, shared)
        made = plan(case("llm", **CASE, trace="mooncake.jsonl", slo_ttft=0.5), folder=tmp_path)
        assert isinstance(made.file, LLMPlan)
        found[shared] = made.file
    (alike,) = found[True].deployments
    assert alike.config["enable_prefix_caching"] is True
    assert found[True].predicted["attainment"] == 1.0
    assert found[False].predicted["attainment"] < 0.5
    mooncake(tmp_path, shared=True)
    off = plan(
        case("llm", **{**CASE, "planner": {"name": "fixed"}}, trace="mooncake.jsonl", slo_ttft=0.5), folder=tmp_path
    )
    assert off.simulate().attainment < 0.5


def test_a_log_that_names_no_models_is_for_one(tmp_path: Path) -> None:
    mooncake(tmp_path, shared=True)
    two = {**CASE, "model": ["llama-3.1-8b", "qwen2.5-7b"]}
    with pytest.raises(InputError, match=r"workload\.trace: mooncake\.jsonl: does not say which model a request is for"):
        plan(case("llm", **two, trace="mooncake.jsonl"), folder=tmp_path)
