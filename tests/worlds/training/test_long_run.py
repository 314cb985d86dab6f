"""Failures in cases of training: what is simulated is the simulator's, by what a case says; bad input is a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright import cli
from meshwright.errors import InputError
from meshwright.profiles.graph import zoo_graph
from meshwright.profiles.graph.memory import state_bytes
from meshwright.simulator.training.goodput import Checkpoints, Machines, best_interval_s, simulate_goodput
from meshwright.worlds.training.case import TrainingCase
from meshwright.worlds.training.long_run import graph_bytes
from meshwright.worlds.training.world import WORLD
from pydantic import ValidationError

DECODER = "layers=4,hidden=256,heads=4,vocab=1024,seq=128"
HOUR, DAY = 3600.0, 86_400.0


def case_of(**sections: dict[str, Any]) -> TrainingCase:
    """A decoder on four nodes of two, with some failures, and what is said besides."""
    said: dict[str, Any] = {
        "model": DECODER, "cluster": {"devices": 8, "devices_per_node": 2}, "workload": {"global_batch": 64},
        "planner": {"name": "search", "options": {"zero": [0], "recompute": ["none"]}},
        "failures": {"mtbf": 100 * HOUR, "node_mtbf": 200 * HOUR, "run_time": "10 d"}, "checkpoint": {"cost": 60},
    }  # fmt: skip
    for name, section in sections.items():
        said[name] = {**said[name], **section}
    return TrainingCase.model_validate(said)


def metrics(case: TrainingCase) -> dict[str, float]:
    return dict(WORLD.evaluate(case, WORLD.share([case], Path())).metrics)


def test_a_case_is_the_simulator_called_by_hand() -> None:
    found = metrics(case_of(failures={"spares": 1, "mttr": "6 h", "draws": 30}, checkpoint={"restart": 120}))
    machines = Machines(nodes=4, mtbf_s=40 * HOUR, mttr_s=6 * HOUR, spares=1)  # 2 / 100 + 1 / 200 an hour
    best = best_interval_s(60.0, 10 * HOUR)
    each = found["iteration_s"]
    assert found["checkpoint_interval_s"] == pytest.approx(best, abs=each)
    saves = Checkpoints(found["checkpoint_interval_s"], 60.0, 0.0, 120.0)
    by_hand = simulate_goodput(10 * DAY, machines, saves, runs=30)
    assert found["effective_share"] == by_hand.goodput.mean()
    assert found["effective_share_expected"] == by_hand.expected_goodput()
    assert found["effective_samples_per_s"] == found["samples_per_s"] * found["effective_share"]
    assert found["goodput"] == found["effective_samples_per_s"]
    assert found["effective_tokens_per_s"] == pytest.approx(found["effective_samples_per_s"] * 128)


def test_the_run_and_its_price_take_failures_into_account() -> None:
    calm = case_of(workload={"run_samples": 10**9}, failures={"mtbf": None, "node_mtbf": None})
    without, found = metrics(calm), metrics(case_of(workload={"run_samples": 10**9}))
    assert "effective_share" not in without
    share = found["effective_share"]
    assert 0 < share < 1
    assert found["run_days"] == pytest.approx(without["run_days"] / share)
    assert found["cost_per_sample"] == pytest.approx(without["cost_per_sample"] / share)


def test_a_checkpoint_is_its_bytes_at_the_bandwidth() -> None:
    """A float32 parameter: 4 bytes of weight and 8 of Adam's moments are saved, 4 of its gradient are not."""
    graph = zoo_graph("tiny-gpt")
    assert graph_bytes(graph) == state_bytes(graph) * 12 / 16
    sync = metrics(case_of(checkpoint={"cost": None, "bandwidth": 1e6, "restart": 0}))
    later = metrics(case_of(checkpoint={"cost": 1.0, "bandwidth": 1e6, "restart": 0}))
    assert sync["checkpoint_stall_s"] > 30
    assert later["checkpoint_stall_s"] == 1.0
    assert later["effective_share"] > sync["effective_share"]


def test_the_best_interval_is_no_worse_than_others() -> None:
    """On the same failures; of 400 runs."""
    shares = {
        interval: metrics(case_of(failures={"draws": 400}, checkpoint={"interval": interval}))["effective_share"]
        for interval in ("best", 120.0, 8 * HOUR)
    }
    assert shares["best"] == max(shares.values())


def test_failures_are_drawn_by_the_seed() -> None:
    one, same, other = (metrics(case_of().model_copy(update={"seed": seed}))["effective_share"] for seed in (0, 0, 1))
    assert one == same != other


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"failures": {"mtbf": 0}}, "failures.mtbf"),
        ({"failures": {"mtbf": -5}}, "failures.mtbf"),
        ({"failures": {"node_mtbf": "0 h"}}, "failures.node_mtbf"),
        ({"failures": {"mttr": -1}}, "failures.mttr"),
        ({"failures": {"draws": 0}}, "failures.draws"),
        ({"failures": {"least_replicas": 2}}, "least_replicas: 2 are more than the 1 replicas; say replicas, too"),
        ({"checkpoint": {"bandwidth": 0}}, "checkpoint.bandwidth"),
        ({"checkpoint": {"interval": 0}}, "checkpoint.interval"),
        ({"checkpoint": {"cost": 100, "interval": 50}},
         "cost: a checkpoint of 100 s is longer than its interval of 50 s; write fewer"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_its_field(sections: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        case_of(**sections)
    (error, *_) = caught.value.errors()
    assert said in ".".join(map(str, error["loc"])) + " " + error["msg"]


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"checkpoint": {"cost": None}},
         "checkpoint.cost: nobody says what a checkpoint costs; give checkpoint.cost (seconds) or "
         "checkpoint.bandwidth"),
        ({"failures": {"replicas": 3, "least_replicas": 1}}, "failures.replicas: 3 do not divide 4 nodes"),
        ({"checkpoint": {"cost": None, "bandwidth": 1e6, "interval": 10}},
         "checkpoint.bandwidth: a checkpoint of 0.04836 GB takes 48.36 s, longer than its interval of 10 s; write "
         "fewer, or faster"),
    ],
)  # fmt: skip
def test_what_only_the_model_can_tell_is_refused_before_any_work(sections: dict[str, Any], said: str) -> None:
    """4 (12 · 256² + 13 · 256) + 2 · 256 + (128 + 1024) · 256 parameters, 14 bytes each."""
    with pytest.raises(InputError) as caught:
        WORLD.share([case_of(**sections)], Path())
    assert str(caught.value) == said


def test_a_plan_is_simulated_over_weeks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    words = "plan training --planner data --model tiny-gpt --devices 2 --device cpu-core --global-batch 8 --out p.json"
    assert cli.run(words.split()) == 0
    capsys.readouterr()
    failing = ["--mtbf", "20 h", "--bandwidth", "1 MB/s", "--interval", "10 min", "--restart", "1 min"]
    assert cli.run(["simulate", "p.json", *failing, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)["plans"][0]["run"]
    held = graph_bytes(zoo_graph("tiny-gpt")) / 1e6
    assert run["checkpoint_stall_s"] == pytest.approx(held)
    assert run["restart_s"] == pytest.approx(60 + held)
    low, high = run["goodput_interval"]
    assert low < run["goodput_closed_form"] < high
    assert cli.run(["simulate", "p.json", *failing]) == 0
    assert "in closed form" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kills", "4@0"], "kills: goes with checkpoint_every alone, which says how often a checkpoint is written"),
        (["--checkpoint-every", "2", "--kills", "4@7"],
         "kills: there is no rank 7; those of the plan are 0 to 1 (got '4@7')"),
        (["--checkpoint-every", "2", "--kills", "soon@1"], "kills: expected SECONDS@RANK, such as 5@1 (got 'soon@1')"),
        (["--checkpoint-every", "9"], "checkpoint_every: 9 is more than the 5 iterations; give more --iterations"),
    ],
)  # fmt: skip
def test_a_script_that_kills_nobody_is_refused(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    plan = "plan training --planner data --model tiny-gpt --devices 2 --device cpu-core --global-batch 8 --out p.json"
    assert cli.run(plan.split()) == 0
    capsys.readouterr()
    assert cli.run(["run", "p.json", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
