"""Sharing cases whose times vary: intervals over draws at the verbs and in studies, and what cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from meshwright.cli import run
from meshwright.worlds import open_world
from meshwright.worlds.cases import build
from meshwright.worlds.sharing.build import policy_of, world_of
from meshwright.worlds.sharing.varying import forecast

CASE = """world: sharing
cluster: {machines: [{gpus: 4, count: 2}]}
apps:
  - {name: wide, jobs: [{work: 8 GPU h, gpus: 8}]}
  - {name: narrow, arrival: 5 min, jobs: [{work: 1 GPU h, gpus: 2, count: 3}]}
times: drawn
draws: 8
spread: {visits: [0.9, 1.0, 1.1], runs: [0.8, 1.0, 1.5], correlation: 600}
max_time: 30 d
"""
MEAN = CASE.replace("times: drawn\ndraws: 8\n", "").partition("spread:")[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "case.yaml"
    path.write_text(CASE)
    return path


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert run([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["policies"]


def test_an_interval_around_the_expectation_for_both_engines(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", str(file), "--planner", "themis,tiresias"]
    found = said(words, capsys)
    assert found == said([*words, "--engine", "simpy"], capsys)
    for told in found.values():
        assert told["draws"] == 8
        for metric in ("max_rho", "mean_completion_s", "gpu_hours"):
            one = told["figures"][metric]  # type: ignore[index]
            assert one["low"] < one["expected"] < one["high"]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert "means over 8 draws of times, and where 78% of runs lie" in out
    assert out.count(" to ") == 2 * 5


def test_draws_that_do_not_vary_are_the_mean_case(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = said(["simulate", str(file), "--visits", "1", "--runs", "1", "--planner", "tiresias"], capsys)
    file.write_text(MEAN)
    (mean,) = said(["simulate", str(file), "--planner", "tiresias"], capsys)
    for metric, value in drawn["tiresias"]["figures"].items():  # type: ignore[union-attr]
        assert value["low"] == value["expected"] == value["high"] == pytest.approx(mean[metric], rel=1e-12)  # type: ignore[index]


def test_studies_have_the_means_and_the_ends(file: Path) -> None:
    world = open_world("sharing")
    case = build(world, {}, {
        "cluster.devices": 4, "apps": [{"name": "a", "jobs": [{"work": 40_000, "gpus": 4}]}], "times": "drawn",
        "draws": 9, "spread.runs": [0.8, 1.3], "spread.correlation": 900.0, "planner.name": "fifo",
    })  # fmt: skip
    shared = world.share([case], Path())
    metrics = world.evaluate(case, shared).metrics
    built = world_of(case, shared.apps(case))
    runs = forecast(case, built, policy_of(case)).runs["max_rho"]
    assert len(np.unique(runs)) == 9
    assert metrics["max_rho"] == pytest.approx(runs.mean())
    assert (metrics["max_rho_low"], metrics["max_rho_high"]) == (runs.min(), runs.max())
    assert set(metrics) <= set(world.metrics)


def test_rows_of_draws_and_a_plan_by_the_mean(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.csv"
    assert run(["simulate", str(file), "--planner", "fifo,tiresias", "--out", str(out)]) == 0
    rows = pd.read_csv(out)
    means = rows.groupby("policy")["max_rho"].mean()
    assert len(rows) == 16
    capsys.readouterr()
    assert run(["plan", str(file), "--planner", "fifo,tiresias", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["best"] == means.idxmin()
    for plan in document["plans"]:
        assert plan["predicted"]["max_rho"] == pytest.approx(means[plan["planner"]])


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("--draws 0", "draws"),
        ("--draws 1", "draws"),
        ("--visits nan,1", "visits"),
        ("--visits=-1,1", "visits"),
        ("--runs 1.2,0.9", "expected quantiles in ascending order"),
        ("--correlation 0", "runs: needs correlation > 0"),
        ("--correlation 0.001", "spread: correlation: 0.001 s are too short"),
        ("--times mean", "spread: is of drawn times; set times: drawn"),
        ("--per-app", "per_app: is of one draw, and times: drawn takes many"),
        ("--timeline a.png", "timeline: is of one draw, and times: drawn takes many"),
    ],
)
def test_what_is_wrong_is_one_line(words: str, what: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(file), *words.split()]) == 2
    error = capsys.readouterr().err
    assert what in error
    assert error.strip().count("\n") <= 1


def test_drawn_times_without_a_spread_are_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CASE.replace(CASE[CASE.index("spread:") : CASE.index("max_time")], ""))
    assert run(["simulate", str(file)]) == 2
    assert "times: nothing says how they vary" in capsys.readouterr().err
