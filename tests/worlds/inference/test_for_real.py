"""From costs that are measured here to an exported folder that runs alone; and plans that do not hold here."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.worlds import faces
from meshwright.worlds.inference.plan import InferencePlan

torch = pytest.importorskip("torch")

MODULE = """
import torch

def net():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
                                 torch.nn.Linear(8 * 36, 4))
    return module, (torch.randn(1, 3, 8, 8),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module stands, and a plan of it that was measured here, cut by hand between two backends."""
    path = tmp_path_factory.mktemp("inference")
    (path / "mine.py").write_text(MODULE)
    case = faces.case(
        "inference", model="mine.py:net", batch=2, planner="collage-op", backends=["torch-onednn", "torch-native"]
    )
    plan = case.plan(folder=path, kept=path / "kept.json", again=False).file
    assert isinstance(plan, InferencePlan)
    said = json.loads(plan.to_json())
    names = [node.id for node in plan.table.graph.nodes]
    cut = [("torch-native", names[:2]), ("torch-onednn", names[2:])]
    said["groups"] = [{"backend": backend, "nodes": nodes, "cost_ms": 1.0} for backend, nodes in cut]
    versions = {used.name: used.version for used in plan.table.used}
    said["machine"]["versions"] = versions
    (path / "plan.json").write_text(json.dumps(said))
    return path


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def test_a_placement_runs_is_compared_and_exported(here: Path) -> None:
    """One value crosses; the folder gives eager's result by itself, the same bits each time."""
    plan = faces.load("plan.json")
    found = plan.run(rounds=2)
    assert (found["crossings"], len(found["groups"])) == (1, 2)
    assert found["difference"] <= 1e-6
    assert found["between_ms"] < found["ms"]
    compared = plan.compare(rounds=5)
    assert compared["real_ms"].iloc[0] > 0
    assert Path("out/run.py") in plan.export("folder", "out")
    code = "from run import Network; import torch; n = Network(); a, b = n(*n.example), n(*n.example); "
    code += "print(torch.equal(a, b), 'meshwright' in __import__('sys').modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd="out", capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
    alone = subprocess.run([sys.executable, "out/run.py"], capture_output=True, text=True, check=True)
    assert "2 units" in alone.stdout


def test_costs_are_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second plan measures nothing: no process is started for it."""
    monkeypatch.setattr(import_module("meshwright.runtime.backends.measure.profile"), "measured", None)
    case = faces.case(
        "inference", model="mine.py:net", batch=2, planner="rule-based", backends=["torch-onednn", "torch-native"]
    )
    assert case.plan(kept=Path("kept.json"), again=False).file.predicted["latency_s"] > 0


def changed(here: Path, change: Any) -> faces.Planned:
    said = json.loads((here / "plan.json").read_text())
    change(said)
    (here / "other.json").write_text(json.dumps(said))
    return faces.load("other.json")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda plan: plan["machine"].update(cpu="another"), "the plan is for another, and this is"),
        (lambda plan: plan["machine"]["versions"].update({"torch-native": "1.0"}), "for torch-native 1.0, and here is"),
        (lambda plan: plan.update(batch=3), "the network is not the one that was planned"),
        (lambda plan: plan.update(model="dcgan"), "the network is not the one that was planned"),
        (lambda plan: plan.update(model="gone.py:net"), "gone.py: no such file"),
    ],
)
def test_a_plan_of_something_else_is_refused_before_it_runs(here: Path, change: Any, line: str) -> None:
    with pytest.raises(InputError, match=line):
        changed(here, change).run(rounds=1)


def test_a_placement_that_is_not_the_network_is_not_timed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was checked while measuring: the whole is held against eager before it is timed."""
    from meshwright.errors import RunError
    from meshwright.runtime.backends.torch_eager import TorchNative

    right = TorchNative.compile
    monkeypatch.setattr(
        TorchNative, "compile", lambda self, *given: lambda *x: tuple(1.01 * y for y in right(self, *given)(*x))
    )
    with pytest.raises(RunError, match="not the network: it differs from eager by"):
        faces.load("plan.json").run(rounds=1)


def test_profiles_for_the_serving_world(here: Path) -> None:
    """Of the placement and of each backend that takes the whole network, at each batch."""
    from meshwright.profiles import ParallelConfig, load

    answer = faces.answered(
        faces.open_world("inference"), "measure",
        faces.Asked((), {"p": faces.load("plan.json").file}, out=here / "profiles.json"),
        {"batches": (1, 2), "rounds": 5},
    )  # fmt: skip
    assert answer.written == (here / "profiles.json",)
    found = load(here / "profiles.json")
    assert list(found) == ["mine.py:net", "mine.py:net.torch-onednn"]
    stages = found["mine.py:net"].stages[ParallelConfig()]
    assert set(stages.latency) == {1, 2}
    assert stages.weight_bytes == (4.0 * (8 * 27 + 8 + 4 * 8 + 4 * 288 + 4),)
