"""`meshwright plan` and `meshwright simulate` from the command line."""

from __future__ import annotations

import json

import pytest
from meshwright import traces
from meshwright.cli import run
from meshwright.planners import PLANNERS
from meshwright.simulator import Plan, simulate

TRAFFIC = ["--rate", "20", "--cv", "3", "--duration", "30", "--seed", "1"]
PROBLEM = ["--devices", "4", "--models", "bert-1.3b=3,moe-1.3b=2", *TRAFFIC]


@pytest.fixture
def plan_file(tmp_path, capsys):
    path = tmp_path / "plan.json"
    assert run(["plan", "serving", *PROBLEM, "--out", str(path)]) == 0
    capsys.readouterr()
    return path


def test_plan_writes_a_plan_that_simulates_as_predicted(plan_file, capsys):
    plan = Plan.load(plan_file)
    assert [m.name for m in plan.models] == [*(f"bert-1.3b-{i}" for i in range(3)), "moe-1.3b-0", "moe-1.3b-1"]
    assert plan.cluster_spec.n_devices == 4
    assert "gamma rate=20 cv=3" in plan.workload.source
    assert run(["simulate", str(plan_file), *TRAFFIC, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["plans"][0]
    assert found["attainment"] == plan.predicted["attainment"]
    assert found["goodput_per_s"] == plan.predicted["goodput"]
    assert sum(row["requests"] for row in found["per_model"]) == plan.workload.requests


def test_plan_prints_what_it_decided(capsys):
    assert run(["plan", "serving", *PROBLEM]) == 0
    out = capsys.readouterr().out
    for word in ("group 0", "attainment", "upper_bound", "gap", "bert-1.3b-0"):
        assert word in out


def test_all_planners_are_compared(capsys):
    assert run(["plan", "serving", *PROBLEM, "--planner", "all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    named = [row["planner"] for row in found["plans"]]
    assert set(named) | set(found["infeasible"]) == set(PLANNERS)
    assert set(found["infeasible"]) == {"dedicated"}  # five models, four devices
    best = max((r for r in found["plans"] if r["planner"] != "clockwork++"), key=lambda r: r["predicted"]["attainment"])
    assert best["predicted"]["attainment"] == found["plan"]["predicted"]["attainment"]
    assert run(["plan", "serving", *PROBLEM, "--planner", "alpaserve,dedicated"]) == 0
    assert "infeasible" in capsys.readouterr().out


def test_planner_options_reach_the_planner(capsys):
    assert run(["plan", "serving", *PROBLEM, "-o", "selection=greedy", "-o", "max_pp=2", "--json"]) == 0
    options = json.loads(capsys.readouterr().out)["plan"]["planner"]["options"]
    assert (options["selection"], options["max_pp"]) == ("greedy", 2)


def test_a_trace_file_and_a_slo_scale(tmp_path, capsys, plan_file):
    plan = Plan.load(plan_file)
    names = [m.name for m in plan.models]
    trace = traces.poisson(10.0, 20.0, names, slo=0.16, seed=2)
    traces.write(trace, tmp_path / "t.csv")
    assert run(["simulate", str(plan_file), "--trace", str(tmp_path / "t.csv"), "--json"]) == 0
    tight = json.loads(capsys.readouterr().out)["plans"][0]["attainment"]
    assert tight == simulate(plan.placement, trace, plan.planned_profiles()).attainment
    assert run(["simulate", str(plan_file), "--trace", str(tmp_path / "t.csv"), "--slo-scale", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plans"][0]["attainment"] > tight
    assert (
        run(
            [
                "plan",
                "serving",
                "--devices",
                "4",
                "--models",
                "bert-1.3b=3,moe-1.3b=2",
                "--trace",
                str(tmp_path / "t.csv"),
            ]
        )
        == 0
    )
    assert "t.csv" not in capsys.readouterr().err


def test_simulate_compares_plans_draws_and_writes_a_timeline(tmp_path, capsys, plan_file):
    other = tmp_path / "other.json"
    assert run(["plan", "serving", *PROBLEM, "--planner", "round-robin", "--out", str(other)]) == 0
    capsys.readouterr()
    png, timeline = tmp_path / "x.png", tmp_path / "t.json"
    assert run(["simulate", str(plan_file), str(other), *TRAFFIC, "--png", str(png), "--per-group", "--per-model"]) == 0
    out = capsys.readouterr().out
    assert str(plan_file) in out
    assert str(other) in out
    assert "utilization" in out
    assert png.read_bytes().startswith(b"\x89PNG")
    engine = ["--engine", "simpy", "--warmup", "2", "--max-batch", "1", "--no-admission", "--overhead", "0.01"]
    assert run(["simulate", str(plan_file), *TRAFFIC, *engine, "--timeline", str(timeline)]) == 0
    assert json.loads(timeline.read_text())["traceEvents"]


BAD_PLAN = {
    "no cluster": (["--models", "S1", "--rate", "1"], "cluster.devices: is missing", 2),
    "malformed cluster": (["--devices", "four", "--rate", "1"], "cluster.devices: should be a whole number", 2),
    "no devices": (["--devices", "0", "--rate", "1"], "devices", 2),
    "unknown device": (["--devices", "4", "--device", "abacus", "--rate", "1"], "abacus", 2),
    "unknown model": (["--devices", "4", "--models", "bert-9b", "--rate", "1"], "bert-9b", 2),
    "count of none": (
        ["--devices", "4", "--models", "bert-1.3b=0", "--rate", "1"],
        "models: expected at least one model",
        2,
    ),
    "unknown profile": (["--devices", "4", "--profile", "nowhere.json", "--rate", "1"], "nowhere.json", 2),
    "no traffic": (["--devices", "4", "--models", "S1"], "workload: give one of rate", 2),
    "negative rate": (["--devices", "4", "--models", "S1", "--rate", "-1"], "rate", 2),
    "unknown planner": (["--devices", "4", "--models", "S1", "--rate", "1", "--planner", "x"], "alpaserve", 2),
    "unknown option": (["--devices", "4", "--models", "bert-1.3b", "--rate", "1", "-o", "speed=9"], "speed", 2),
    "malformed option": (["--devices", "4", "--models", "bert-1.3b", "--rate", "1", "-o", "speed"], "NAME=VALUE", 2),
    "missing trace": (["--devices", "4", "--models", "bert-1.3b", "--trace", "no.csv"], "no.csv", 2),
    "cv of a file": (["--devices", "4", "--trace", "no.csv", "--cv", "2"], "cv: shapes generated", 2),
    "two SLOs": (["--devices", "4", "--rate", "1", "--slo", "1", "--slo-scale", "2"], "give one of slo", 2),
    "fits nowhere": (["--devices", "2", "--models", "S4", "--rate", "1"], "16 devices", 3),
}


@pytest.mark.parametrize("case", BAD_PLAN)
def test_plan_says_what_is_wrong(case, capsys):
    words, expected, code = BAD_PLAN[case]
    assert run(["plan", "serving", *words]) == code
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_simulate_says_what_is_wrong(tmp_path, plan_file, capsys):
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "other.json").write_text(plan_file.read_text())
    for words, expected in [
        ([str(tmp_path / "none.json"), *TRAFFIC], "none.json"), ([str(tmp_path / "bad.json"), *TRAFFIC], "bad.json"),
        ([str(plan_file), *TRAFFIC, "--engine", "magic"], "magic"),
        ([str(plan_file), *TRAFFIC, "--dispatch", "magic"], "magic"),
        ([str(plan_file), *TRAFFIC, "--max-batch", "-1"], "serving.max_batch"),
        ([str(plan_file), *TRAFFIC, "--warmup", "-1"], "warmup: "),
        ([str(plan_file), *TRAFFIC, "--overhead", "-1"], "overhead"),
        ([str(plan_file), str(tmp_path / "other.json"), *TRAFFIC, "--timeline", "t.json"], "timeline"),
        ([str(plan_file), *TRAFFIC, "--slo-scale", "3", "--profile", "nowhere.json"], "nowhere.json"),
    ]:  # fmt: skip
        assert run(["simulate", *words]) == 2
        assert expected in capsys.readouterr().err


def test_clockwork_has_no_plan_file(tmp_path, capsys):
    assert run(["plan", "serving", *PROBLEM, "--planner", "clockwork++", "--out", str(tmp_path / "p.json")]) == 2
    assert "no plan file" in capsys.readouterr().err
    assert not (tmp_path / "p.json").exists()
