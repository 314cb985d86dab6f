"""`graph`, `plan`, `simulate`, `run` and `export` of training on the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hand_plans import hand_plan
from meshwright.cli import run
from meshwright.profiles.graph import INFERENCE, ZOO, load_graph, zoo_graph
from meshwright.simulator.training import TrainingPlan, simulate_training

BATCH = ["--global-batch", "8", "--microbatches", "4"]
HERE = ["--devices", "2", "--device", "cpu-core", *BATCH]
PLAN = ["plan", "training"]
MLP = [*PLAN, "--planner", "alpa", "--model", "tiny-mlp", *HERE]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str | Path, code: int = 0) -> str:
        capsys.readouterr()
        assert run([str(word) for word in words]) == code, capsys.readouterr().err
        return capsys.readouterr().out

    return call


def test_plan_then_simulate(tmp_path: Path, said: Any) -> None:
    path = tmp_path / "plan.json"
    out = said(*MLP, "--out", path)
    assert out.splitlines()[0].startswith("alpa ")
    assert out.splitlines()[-1] == f"plan written: {path}"
    plan = TrainingPlan.load(path)
    assert (plan.model.name, plan.model.graph, plan.microbatches) == ("tiny-mlp", "", 4)
    assert "operators:" not in out
    found = json.loads(said("simulate", path, "--json"))["plans"][0]
    assert found["seconds"] == simulate_training(plan).seconds
    assert said("simulate", path, "--engine", "simpy", "--json").replace("simpy", "compiled") == said(
        "simulate", path, "--json"
    )
    assert "the plan predicted" in said("simulate", path)


def test_the_plan_is_explained_and_drawn(tmp_path: Path, said: Any) -> None:
    picture = tmp_path / "p.png"
    out = said(*MLP, "-o", "stages=one", "--explain", "--picture", picture)
    assert "stage 0: devices 0-1 as " in out
    assert "b h, h f -> b f" in out
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_several_planners_are_compared(said: Any) -> None:
    found = json.loads(said(*PLAN, "--planner", "alpa,intra-only,inter-only", "--model", "tiny-mlp", *HERE, "--json"))
    seconds = {row["planner"]: row["predicted"]["seconds"] for row in found["plans"]}
    assert set(seconds) == {"alpa", "intra-only", "inter-only"}
    assert found["best"] == min(seconds, key=lambda name: seconds[name])
    assert seconds["alpa"] <= min(seconds.values()) * (1 + 1e-9)  # the others search a part of its space
    assert found["plan"]["predicted"]["seconds"] == seconds[found["best"]]
    out = said(*PLAN, "--planner", "alpa,intra-only", "--model", "tiny-mlp", *HERE)
    assert out.splitlines()[0].split()[:3] == ["planner", "iteration", "s"]
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["alpa", "intra-only"]


def test_short_names_of_options_and_microbatches_that_are_searched(said: Any) -> None:
    words = [*PLAN, "--model", "tiny-mlp", "--devices", "2", "--device", "cpu-core", "--global-batch", "4"]
    more = ["-o", "layers=2", "-o", "logical=[[1,1],[2,1]]"]
    found = json.loads(said(*words, *more, "--json"))["plan"]
    assert found["planner"]["options"]["n_layers"] == 2
    assert found["planner"]["options"]["logical"] == [[1, 1], [2, 1]]
    assert found["microbatches"] in (1, 2, 4)
    assert len(found["stages"]) <= 2


FACTORY = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

def net():
    labels = torch.randint(0, 8, (4,))
    return {"module": Net(), "inputs": (torch.randn(4, 16),), "loss": "cross_entropy", "labels": labels}

class Twisted(Net):
    def forward(self, x):
        return (self.up(x) if x.sum() > 0 else x).sum()

def twisted():
    return Twisted(), (torch.randn(4, 16),)

def wrong():
    return 3

def broken():
    return {}["x"]
"""


def test_a_torch_module_from_file_to_run(
    tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Traced, planned, and run on two processes from another folder: the graph lies beside the plan."""
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "in").mkdir()
    source = tmp_path / "net.py"
    source.write_text(FACTORY)
    plan = tmp_path / "in/plan.json"
    said(*PLAN, "--planner", "inter-only", "--model", f"{source}:net", *HERE, "--out", plan)
    assert TrainingPlan.load(plan).model.graph == "plan.graph.json"
    assert load_graph(tmp_path / "in/plan.graph.json").name == "net"
    monkeypatch.chdir(tmp_path)
    actions = tmp_path / "actions.csv"
    found = json.loads(said("run", "in/plan.json", "--iterations", "2", "--out", actions, "--json"))
    assert found["processes"] == 2
    assert max(found["difference"]["loss"], found["difference"]["gradient"]) <= 1e-5
    assert len(found["losses"]) == len(found["seconds"]) == 2
    rows = list(csv.DictReader(io.StringIO(actions.read_text())))
    assert sum(row["op"] == "F" for row in rows) == 2 * 2 * 4  # iterations, stages, microbatches
    said("export", "in/plan.json", "--to", "torch", "--out", "x")
    written, beside = load_graph(tmp_path / "x/graph.json"), load_graph(tmp_path / "in/plan.graph.json")
    assert written.with_batch(1) == beside.with_batch(1)
    line = FACTORY.splitlines().index('    return {}["x"]') + 1
    for name, parts in {
        "twisted": ("data",), "wrong": ("expected a function that returns (module", "got int"),
        "broken": (f"{source}:{line}: KeyError",),
        "nett": (f"did you mean {source}:net?",),
    }.items():  # fmt: skip
        assert run(["graph", f"{source}:{name}"]) == 2
        err = capsys.readouterr().err
        assert err.startswith("meshwright: ")
        assert all(part in err for part in parts), err
        assert err.count("\n") == 1, err


def test_run_prints_real_against_simulated(tmp_path: Path, said: Any) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    path = tmp_path / "plan.json"
    said(*PLAN, "--planner", "inter-only", "--model", "tiny-mlp", *HERE, "--out", path)
    out = said("run", path, "--iterations", "2")
    assert "against torch's tiny-mlp: equal; first iteration in float64" in out
    assert [line.split("  ")[0] for line in out.splitlines()[-3:]] == [
        "an iteration took", "simulated, as planned", "simulated, stages measured",
    ]  # fmt: skip


def test_graph_shows_and_writes(tmp_path: Path, said: Any) -> None:
    rows = json.loads(said("graph", "--json"))
    listed = [*ZOO, *INFERENCE]
    assert [row["model"] for row in rows] == listed
    assert len(said("graph").splitlines()) == 1 + len(listed)
    path = tmp_path / "g.json"
    out = said("graph", "tiny-moe", "--batch", "4", "--operators", "--out", path)
    graph = zoo_graph("tiny-moe", batch=4)
    assert load_graph(path) == graph
    assert "layer 0 (and 1 like it, to 2)" in out  # dense and expert layers alternate
    assert out.count("attention.q ") == 2
    found = json.loads(said("graph", str(path), "--json"))
    assert found["digest"] == graph.digest
    assert sum(kind["operators"] for kind in found["kinds"]) == len(graph.operators)


def test_several_plans_and_other_schedules(tmp_path: Path, said: Any) -> None:
    paths = [hand_plan(microbatches=m).save(tmp_path / f"{m}.json") for m in (4, 8)]
    out = said("simulate", *paths, "--schedule", "gpipe").splitlines()
    assert [line.split()[:2] for line in out[1:]] == [[str(p), "gpipe"] for p in paths]
    gpipe = hand_plan(schedule="gpipe")
    found = json.loads(said("simulate", paths[1], "--schedule", "gpipe", "--json"))["plans"][0]
    assert found["seconds"] == simulate_training(gpipe).seconds
    assert found["in_flight"] == [8, 8]


def test_timeline_and_picture(tmp_path: Path, said: Any) -> None:
    path = hand_plan().save(tmp_path / "plan.json")
    said("simulate", path, "--timeline", tmp_path / "t.json", "--png", tmp_path / "p.png")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(e.get("name") == "F" for e in events) == 2 * 8
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"
