"""The LLM world from Python: a case, its plan, and what is asked of the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.simulator.llm import LLMPlan, LLMPlanResult
from meshwright.worlds import open_world
from meshwright.worlds.faces import Planned, case, load, plan

OPTIONS = {"tp": [1, 2], "pp": 1, "batched_tokens": [512], "seeds": 1}
SMALL: dict[str, Any] = {
    "model": "llama-3.1-8b", "devices": 2, "device": "h100-80gb", "lengths": "alpaca", "rate": 40.0, "duration": 5.0,
    "slo_ttft": 0.5, "slo_tpot": 0.02, "planner": {"name": "vllm", "options": OPTIONS},
}  # fmt: skip


@pytest.fixture(scope="module")
def made() -> Planned:
    return plan(case("llm", **SMALL))


def test_planned_simulated_and_predicted_are_one(made: Planned) -> None:
    assert isinstance(made.file, LLMPlan)
    result = made.simulate()
    assert isinstance(result, LLMPlanResult)
    assert result.attainment == made.file.predicted["attainment"]
    assert len(next(iter(result.results.values())).trace) == 200
    assert "KV memory of a rank" in str(made)


def test_another_case_and_another_engine(made: Planned) -> None:
    tight = case("llm", **{**SMALL, "slo_ttft": 1e-6})
    assert made.simulate(tight).attainment == 0.0
    assert made.simulate(engine="simpy").summary() == made.simulate().summary()


def test_a_plan_that_was_read_knows_its_case(made: Planned, tmp_path: Path) -> None:
    """Models, limits, devices and the traffic: what was predicted comes out again, with nothing said."""
    found = load(made.save(tmp_path / "plan.json"))
    assert found.world.name == "llm"
    result = found.simulate()
    assert result.attainment == made.file.predicted["attainment"]
    (served,) = result.plan.models
    assert (served.slo_ttft_s, served.slo_tpot_s) == (0.5, 0.02)


def test_bursts_that_were_planned_for_are_simulated(tmp_path: Path) -> None:
    bursty = plan(case("llm", **{**SMALL, "cv": 3.0, "seed": 4}))
    again = load(bursty.save(tmp_path / "plan.json")).simulate()
    assert again.goodput == bursty.file.predicted["goodput"]


def test_files_that_were_planned_for_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.csv").write_text("prompt_tokens,output_tokens\n30,20\n50,10\n")
    made = plan(case("llm", **{**SMALL, "lengths": "mine.csv"}), folder=tmp_path)
    again = load(made.save(tmp_path / "plan.json"))
    with pytest.raises(InputError, match=r"workload\.lengths: mine\.csv: no such file"):
        again.simulate()
    monkeypatch.chdir(tmp_path)
    assert again.simulate().goodput == made.file.predicted["goodput"]


def test_of_a_plan_that_no_case_made_the_lengths_have_to_be_said(made: Planned) -> None:
    world = open_world("llm")
    bare = made.file.model_copy(update={"case": {}})
    with pytest.raises(InputError, match=r"workload\.lengths: the plan was made for alpaca-like"):
        world.case_of({"plan": bare}, {}, "simulate")
    assert world.case_of({"plan": bare}, {"workload.lengths": "alpaca"}, "simulate")["workload"]["rate"] > 0


def test_exported(made: Planned, tmp_path: Path) -> None:
    paths = made.export("vllm", tmp_path / "servers", model_source={"llama-3.1-8b": "meta-llama/Llama-3.1-8B"})
    assert {"serve.sh", "docker-compose.yaml", "capacity.txt"} <= {path.name for path in paths}
    assert all(path.is_file() for path in paths)


def test_one_engine_is_planned_without_a_search() -> None:
    fixed = plan(case("llm", **{**SMALL, "planner": {"name": "fixed"}, "engine": {"tensor_parallel_size": 2}}))
    assert isinstance(fixed.file, LLMPlan)
    (deployment,) = fixed.file.deployments
    assert (deployment.tp, deployment.replicas, fixed.file.planner.evaluations) == (2, 1, 0)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"modell": "llama-3.1-8b"}, "did you mean 'model'"),
        ({"slo_tttf": 1}, "did you mean 'slo_ttft'"),
        ({"rate": "60 ms"}, "workload.rate: should be a number"),
        ({"devices": 10**9}, "cluster.devices: should be less than or equal to 100000"),
        ({"model": []}, "model: "),
        ({"rate": -1}, "workload.rate: should be greater than 0"),
        ({"requests": 3, "duration": 5.0}, "give one of requests and duration"),
    ],
)
def test_a_wrong_case_is_refused_where_it_is_said(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        case("llm", **{**SMALL, **said})


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"model": "llama-3.1-9b"}, "did you mean 'Llama-3.1-8B'"),
        ({"device": "h101"}, "cluster.device"),
        ({"lengths": "nowhere.csv"}, "workload.lengths"),
        ({"planner": {"options": {"tensor": 2}}}, "planner.options: unknown option 'tensor'"),
        ({"planner": {"options": {"share": True}}}, "share: is for several models"),
    ],
)
def test_wrong_names_are_refused_before_anything_is_planned(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(case("llm", **{**SMALL, **said}))


def test_options_and_targets_by_their_nearest_names(made: Planned, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown option 'engin'; did you mean 'engine'"):
        made.simulate(engin="simpy")
    with pytest.raises(InputError, match="engine"):
        made.simulate(engine="c")
    with pytest.raises(InputError, match="torchrun"):
        made.export("torchrun", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_plan_names_the_smallest_change() -> None:
    few = {**SMALL, "devices": 1, "rate": 900.0, "slo_ttft": 0.2, "slo_tpot": 0.05}
    with pytest.raises(InfeasibleError, match="smallest change"):
        plan(case("llm", **{**few, "planner": {"objective": "devices", "options": OPTIONS}}))


def test_a_plan_of_another_world_is_no_plan_here(made: Planned, tmp_path: Path) -> None:
    other = Path(__file__).parents[3] / "examples" / "plan.json"
    assert load(other).world.name == "serving"
    with pytest.raises(InputError, match="llm-plan"):
        made.world.load(other)
    nobody = tmp_path / "nobody.json"
    nobody.write_text(json.dumps({"kind": "other"}))
    with pytest.raises(InputError, match=r"nobody\.json"):
        load(nobody)
