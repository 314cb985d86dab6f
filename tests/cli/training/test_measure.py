"""`meshwright measure plan.json`: a plan with measured times that `simulate` takes, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hand_plans import hand_plan as eight_devices
from meshwright.cli import run
from meshwright.profiles.graph import zoo_graph
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.simulator.training import TrainingPlan, simulate_training

TIMES = ("forward_s", "backward_input_s", "update_s")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tiny(devices: int, **options: Any) -> TrainingPlan:
    meshes = [(1, 1)] * devices
    return hand_plan(zoo_graph("tiny-gpt"), meshes=meshes, global_batch=4, microbatches=2, **options)


def test_measured_plan_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    if cores() < 2:
        pytest.skip("two processes need two cores")
    path, out = tmp_path / "plan.json", tmp_path / "measured.json"
    plan = tiny(2)
    plan.save(path)
    assert run(["measure", str(path), "--rounds", "2", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    measured = TrainingPlan.load(out)
    for before, after in zip(plan.stages, measured.stages, strict=True):
        assert all(getattr(after, name) > 0 for name in TIMES)
        assert after.model_copy(update={n: getattr(before, n) for n in (*TIMES, "reduce_s")}) == before
    assert measured.cost_source.startswith("measured on ")
    assert all(word in measured.cost_source for word in ("2 core(s)", "2 round(s)", "torch ", "python ", "T"))
    assert measured.cluster.device.name == "this-machine"
    assert measured.predicted == {}
    assert (measured.transfers, measured.meshes, measured.schedule) == (plan.transfers, plan.meshes, plan.schedule)
    rows = [line.split()[:2] for line in text.splitlines() if line.lstrip()[:1] in ("0", "1")]
    assert rows == [[s, name] for s in "01" for name in ("forward", "backward", "reduce", "update")]
    assert text.splitlines()[-1] == f"written: {out}"
    assert run(["simulate", str(out), "--json"]) == 0
    seconds = json.loads(capsys.readouterr().out)["plans"][0]["seconds"]
    assert seconds == simulate_training(measured).seconds
    # Each stage runs all its microbatches one after another, and then updates.
    assert seconds >= max(2 * (s.forward_s + s.backward_input_s) + s.update_s for s in measured.stages)


def test_json_of_one_process_and_a_graph_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/g.json").write_text(zoo_graph("tiny-gpt").to_json())
    plan = tiny(1)
    plan = plan.model_copy(update={"model": plan.model.model_copy(update={"graph": "g.json", "dtype": "float16"})})
    path, out = plan.save(tmp_path / "in/plan.json"), tmp_path / "out/measured.json"
    words = [str(path), "--fast", "--out", str(out), "--json"]
    assert run(["measure", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rounds"] == 1
    assert found["messages"] is None  # one process sends none
    assert found["doubts"][0].startswith("doubtful: the plan is for float16")
    (stage,) = TrainingPlan.load(out).stages
    measured = {row["pass"]: row["measured_s"] for row in found["passes"]}
    assert measured["forward"] == stage.forward_s
    assert measured["backward"] == stage.backward_input_s + stage.backward_weight_s
    assert run(["run", str(out)]) == 0  # the graph is found from the other folder


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("plan.json --model cpu-gpt-s", ("model: plan.json says what is trained, 'tiny-gpt' (got 'cpu-gpt-s')",)),
        ("plan.json --tp 2", ("No such option: --tp",)),
        ("plan.json --device cuda", ("No such option: --device",)),
        ("plan.json --lengths 4", ("lengths: is for the slices of a model",)),
        ("plan.json --rounds 0", ("rounds: should be greater than or equal to 1 (got 0)",)),
        ("plan.json --rounds 2 --fast", ("fast: is one round",)),
        ("plan.json --out .", ("expected a file to write (got a folder)",)),
        ("no.json", ("no.json: cannot read the plan",)),
        ("eight.json", ("unknown model 'toy'",)),
        ("wide.json", (f"{cores() + 1} processes, and {cores()} core(s)", "have no times of their own")),
        ("training --rounds 2", ("rounds: are for the stages of a plan",)),
    ],
)
def test_refused_in_one_line(
    words: str,
    parts: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny(1).save("plan.json")
    eight_devices().save("eight.json")
    graph, n = zoo_graph("tiny-gpt"), cores() + 1
    hand_plan(graph, meshes=[(1, n)], global_batch=n, microbatches=1).save("wide.json")
    assert run(["measure", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    assert all(part in err for part in parts), err


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny(1).save(tmp_path / "plan.json")
    monkeypatch.setattr("meshwright.worlds.training.doors.stages.find_spec", lambda name: None)
    assert run(["measure", str(path)]) == 2
    said = "torch is not installed; measuring needs it: pip install -e '.[torch]' in Meshwright's folder"
    assert said in capsys.readouterr().err
