"""A plan is scored on the traffic that it was made for; what is said now goes before that."""

from __future__ import annotations

import json
from pathlib import Path

import meshwright
import pytest
from meshwright import traces
from meshwright.worlds import open_world
from meshwright.worlds.cases import build

WORLD = open_world("serving")
CASE = {"models": {"bert-1.3b": 2}, "devices": 4, "rate": 8, "cv": 3, "duration": 50, "seed": 4}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = meshwright.case("serving", **CASE, slo_scale=4, planner="round-robin").plan()
    return plan.save(tmp_path_factory.mktemp("plan") / "plan.json")


def workload(path: Path, **said: object) -> dict[str, object]:
    """What a plan's traffic is where this is said."""
    changed = {f"workload.{name}": value for name, value in said.items()}
    case = build(WORLD, WORLD.case_of({"plan": WORLD.load(path)}, changed, "simulate"), changed)
    return case.model_dump(exclude_unset=True)["workload"]


def test_the_plans_own_figure_comes_out_again(planned: Path) -> None:
    plan = meshwright.load(planned)
    assert plan.simulate().attainment == json.loads(planned.read_text())["predicted"]["attainment"]


def test_what_is_said_goes_before(planned: Path) -> None:
    assert workload(planned, rate=20) == {"rate": 20, "cv": 3, "duration": 50}
    assert workload(planned, duration=5, slo=1.0) == {"rate": 8, "cv": 3, "duration": 5, "slo": 1.0}
    assert workload(planned, trace="t.csv") == {"trace": "t.csv"}


def test_a_real_run_is_as_long_as_somebody_waits(planned: Path) -> None:
    plans = {"plan": WORLD.load(planned)}
    assert WORLD.case_of(plans, {}, "run")["workload"] == {"rate": 8.0, "cv": 3.0, "duration": 30.0}
    assert WORLD.case_of(plans, {"workload.trace": "t.csv"}, "run")["workload"] == {}


def test_a_trace_that_was_planned_for_is_read_again_with_its_limits(planned: Path, tmp_path: Path) -> None:
    names = [m.name for m in WORLD.load(planned).models]  # type: ignore[attr-defined]
    traces.write(traces.gamma(9.0, 2.0, 40.0, names, seed=1), tmp_path / "t.csv")
    said = {"models": {"bert-1.3b": 2}, "devices": 4, "trace": "t.csv", "slo_scale": 4, "planner": "round-robin"}
    plan = meshwright.case("serving", **said).plan(folder=tmp_path)
    path = plan.save(tmp_path / "plan.json")
    assert workload(path) == {"trace": "t.csv", "slo_scale": 4}
    assert workload(path, rate=3) == {"rate": 3, "slo_scale": 4}
    assert "trace" not in WORLD.case_of({"plan": WORLD.load(path)}, {}, "run")["workload"]


def test_a_resampled_trace_is_resampled_at_every_door(planned: Path, tmp_path: Path) -> None:
    """It was taken as it stands where a plan was simulated."""
    names = [m.name for m in WORLD.load(planned).models]  # type: ignore[attr-defined]
    traces.write(traces.gamma(9.0, 2.0, 40.0, names, seed=1), tmp_path / "t.csv")
    said = {"models": {"bert-1.3b": 2}, "devices": 4, "trace": "t.csv", "resample": True, "cv_scale": 2, "slo_scale": 4}
    plan = meshwright.case("serving", **said, planner="round-robin").plan(folder=tmp_path)
    assert plan.simulate().attainment == plan.file.predicted["attainment"]  # type: ignore[attr-defined]


def test_of_a_plan_that_no_case_made_the_traffic_has_to_be_said(planned: Path) -> None:
    bare = WORLD.load(planned).model_copy(update={"case": {}})
    said = WORLD.case_of({"plan": bare}, {}, "simulate")
    with pytest.raises(meshwright.errors.InputError, match="give one of rate"):
        build(WORLD, {**said, "workload": {}}, {})
