"""Times of steps that are drawn: the interval of a simulated plan, and what cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright.cli import run

PLAN = (
    "plan llm --model tiny-llama --device cpu-core --devices 1 --lengths alpaca --rate 1 --slo-ttft 5 --slo-tpot 1 "
    "-o tp=1 -o batched_tokens=128"
)
DRAWN = "--lengths alpaca --rate 2 --requests 40 --times drawn"


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "llm-plan.json"
    assert run([*PLAN.split(), "--out", str(path)]) == 0
    return path


def told(words, capsys):
    assert run([str(word) for word in words]) == 0
    return json.loads(capsys.readouterr().out)["plans"][0]


def test_an_interval_around_the_expectation_for_both_engines(plan, capsys):
    words = ["simulate", plan, *DRAWN.split(), "--draws", 12, "--visits", "0.9,1,1.3", "--level", "0.02", "--json"]
    found = told(words, capsys)["forecast"]
    assert found == told([*words, "--engine", "simpy"], capsys)["forecast"]
    assert found["draws"] == 12
    assert found["coverage"] == pytest.approx(11 / 13)
    assert set(found["figures"]) == {
        "throughput", "goodput", "attainment", "ttft_p50", "ttft_p90", "tpot_p50", "tpot_p90",
    }  # fmt: skip
    for name in ("ttft_p50", "tpot_p50"):
        one = found["figures"][name]
        assert one["low"] < one["expected"] < one["high"]
    mean = told([*words[: words.index("--times")], "--json"], capsys)
    assert "forecast" not in mean
    # A step takes 1.067 times its cost in the mean; far from saturation so does a further token.
    ratio = found["figures"]["tpot_p50"]["expected"] / mean["per_model"][0]["tpot_p50_s"]
    assert ratio == pytest.approx(3.2 / 3, abs=0.03)


def test_the_table_says_draws_and_units(plan, capsys):
    assert run(["simulate", str(plan), *DRAWN.split(), "--draws", "5", "--visits", "0.9,1.2"]) == 0
    text = capsys.readouterr().out
    assert "5 draws" in text
    assert "67% of runs" in text
    assert "tpot_p90" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--draws 0 --visits 0.9,1.2", "draws: "),
        ("--visits=-1,1", "visits"),
        ("--visits nan,1", "visits"),
        ("--visits 1.2,0.9", "expected quantiles in ascending order"),
        ("--visits 0.9,1.2 --runs 0.9,1.1", "runs: needs correlation > 0"),
        ("", "a roofline does not say how times vary"),
        ("--kernels .", "meta.yaml"),
    ],
)
def test_what_is_wrong_is_one_line(words, said, plan, capsys):
    assert run(["simulate", str(plan), *DRAWN.split(), *words.split()]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") <= 2


def test_a_spread_without_draws_and_a_plan_for_drawn_times_are_refused(plan, capsys):
    assert run(["simulate", str(plan), "--lengths", "alpaca", "--rate", "2", "--visits", "0.9,1.1"]) == 2
    assert "spread: is of drawn times" in capsys.readouterr().err
    assert run([*PLAN.split(), "--times", "drawn", "--visits", "0.9,1.1"]) == 2
    assert "plans and studies take the mean" in capsys.readouterr().err
