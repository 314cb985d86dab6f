"""Limits of several models: each is judged by its own, also where a plan is simulated from its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.cli import run
from meshwright.planners.vllm import DrawnTraffic, Effort, LLMDemand, SearchSpace, plan
from meshwright.profiles.llm import decoder
from meshwright.simulator import Cluster
from meshwright.simulator.llm import LLMPlan
from meshwright.traces.lengths import length_profile

ALPACA = length_profile("alpaca")
STRICT, LOOSE = "Llama-3.2-1B", "Qwen2.5-1.5B"


@pytest.fixture(scope="module")
def unlike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of two models: no request of the one is in time, every one of the other."""
    demands = [
        LLMDemand(decoder(name), DrawnTraffic(ALPACA, 4.0, 40, stream=i), ttft, 1.0)
        for i, (name, ttft) in enumerate(((STRICT, 1e-6), (LOOSE, 10.0)))
    ]
    space = SearchSpace(tp=(1,), pp=(1,), batched_tokens=(512,))
    made = plan(Cluster(1, 2, "a100-40gb"), demands, space=space, effort=Effort(seeds=1)).plan
    path = tmp_path_factory.mktemp("unlike") / "p.json"
    made.save(path)
    return path


def attained(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, float]]:
    capsys.readouterr()
    assert run(["simulate", *words, "--lengths", "alpaca", "--json"]) == 0
    plans: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["plans"]
    return [{row["model"]: row["attainment"] for row in each["per_model"]} for each in plans]


def test_each_model_is_judged_by_its_own_limits(unlike: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attained(capsys, str(unlike)) == [{STRICT: 0.0, LOOSE: 1.0}]


def test_what_is_said_now_counts_for_all(unlike: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attained(capsys, str(unlike), "--slo-ttft", "10") == [{STRICT: 1.0, LOOSE: 1.0}]
    assert attained(capsys, str(unlike), "--slo-scale", "1e-6") == [{STRICT: 0.0, LOOSE: 0.0}]


def test_plans_are_compared_by_the_limits_of_the_first(
    unlike: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = LLMPlan.load(unlike)
    free = tuple(m.model_copy(update={"slo_ttft_s": 5.0}) for m in other.models)
    path = other.model_copy(update={"models": free}).save(tmp_path / "o.json")
    assert attained(capsys, str(unlike), str(path)) == 2 * [{STRICT: 0.0, LOOSE: 1.0}]
