"""The doors of the training world: from Python, the help of the command line, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.planners.training import training_planner
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.training import TrainingPlan, simulate_training
from meshwright.worlds import faces
from meshwright.worlds.training.world import WORLD

SMALL: dict[str, Any] = {
    "model": "tiny-mlp", "devices": 2, "device": "cpu-core", "global_batch": 8, "microbatches": 4,
    "planner": {"name": "inter-only"},
}  # fmt: skip
PLAN = "plan training --model tiny-mlp --devices 2 --device cpu-core --global-batch 8"


def small(**said: Any) -> faces.Planned:
    return faces.case("training", **{**SMALL, **said}).plan()


@pytest.fixture(scope="module")
def warm() -> Iterator[None]:
    """Workers are forked from a process that has loaded torch; see tests/runtime/forked.py."""
    pytest.importorskip("torch", reason="torch is not installed")
    from forked import warm_workers

    with warm_workers():
        yield


def by_hand() -> TrainingPlan:
    cluster = Cluster(1, 2, "cpu-core")
    return training_planner("inter-only")(zoo_graph("tiny-mlp"), cluster, global_batch=8, microbatches=4)


def test_python_plans_and_simulates(tmp_path: Path) -> None:
    planned = small()
    assert isinstance(planned.file, TrainingPlan)
    assert planned.file.stages == by_hand().stages
    result = planned.simulate()
    assert result.seconds == simulate_training(planned.file).seconds
    gpipe = planned.simulate(schedule="gpipe", timeline=tmp_path / "t.json")
    assert gpipe.plan.schedule == "gpipe"
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert str(planned).startswith("alpa-inter-only ")
    again = faces.load(planned.save(tmp_path / "plan.json"))
    assert again.simulate(engine="simpy").seconds == result.seconds


@pytest.mark.usefixtures("warm")
def test_python_runs_a_plan_and_one_that_was_read(tmp_path: Path) -> None:
    planned = small(devices=1, microbatches=2)
    found = planned.run(iterations=2)
    assert found.difference.largest <= 1e-7
    assert len(found.losses) == 2
    again = faces.load(planned.save(tmp_path / "plan.json")).run(iterations=1, compare=False)
    assert again.losses[0] == found.losses[0]  # the seed is the case's


NET = """
import torch
def net():
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    labels = torch.zeros(2, dtype=torch.int64)
    return {"module": module, "inputs": (torch.randn(2, 8),), "loss": "cross_entropy", "labels": labels}
"""


@pytest.mark.usefixtures("warm")
def test_a_module_of_ones_own_runs_from_memory_and_from_a_file(tmp_path: Path) -> None:
    """The plan knows its graph before it is written; `save` puts it beside the plan."""
    (tmp_path / "net.py").write_text(NET)
    case = faces.case("training", model="net.py:net", devices=1, device="cpu-core", global_batch=4, microbatches=2)
    planned = case.plan(folder=tmp_path)
    found = planned.run(iterations=1)
    assert found.difference.largest <= 1e-7
    assert found.difference.against.endswith("net.py:net")  # the module, not the graph
    assert list(tmp_path.glob("*.json")) == []
    assert "train.py" in {path.name for path in planned.export("torch", tmp_path / "program")}
    (tmp_path / "in").mkdir()
    again = faces.load(planned.save(tmp_path / "in/plan.json"))
    assert (tmp_path / "in/plan.graph.json").is_file()
    assert again.run(iterations=1).losses == found.losses


def test_python_exports(tmp_path: Path) -> None:
    paths = small().export("torch", tmp_path / "program")
    assert {path.name for path in paths} >= {"train.py", "plan.json", "graph.json", "placements.json"}
    with pytest.raises(InputError, match="unknown target 'tourch'; did you mean 'torch'"):
        small().export("tourch", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_python_searches_configurations(tmp_path: Path) -> None:
    words = "layers=8,hidden=1024,heads=16,vocab=8192,seq=512"
    case = faces.case("training", model=words, devices=4, device="a100-80gb", global_batch=16,
                      planner={"name": "search", "options": {"pp": [2, 4]}})  # fmt: skip
    planned = case.plan(top=3)
    assert planned.answer is not None
    best = planned.answer.value.best
    assert len(best) == 3
    assert planned.simulate().seconds == pytest.approx(best[0].seconds, rel=0.02)
    assert all(one.settings["pp"] in (2, 4) for one in best)


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"global_bach": 4}, "global_batch"),
        ({"memory": "3 apples"}, "cluster.memory: expected bytes, such as 13 GiB or 16 GB (got '3 apples')"),
        ({"devices": 10**9}, "cluster.devices: should be less than or equal to 100000"),
        ({"planner": {"name": "alpha"}}, "planner.name: 'alpha' plans no training; did you mean 'alpa'?"),
        ({"model": "tiny-mpl"}, "model: unknown model 'tiny-mpl'; did you mean tiny-mlp?"),
    ],
)
def test_python_refuses(said: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError) as caught:
        small(**said)
    assert part in str(caught.value)


def test_python_refuses_options_of_no_door() -> None:
    with pytest.raises(InputError, match="simulate: unknown option 'schedul'; did you mean 'schedule'"):
        small().simulate(schedul="gpipe")


@pytest.mark.parametrize("verb", ["plan training", "simulate plan.json", "run plan.json", "compare plan.json",
                                  "export plan.json", "measure training", "measure plan.json"])  # fmt: skip
def test_help_is_a_screen(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    by_hand().save("plan.json")
    capsys.readouterr()
    assert run([*verb.split(), "--help"]) == 0
    out = capsys.readouterr().out
    door: Any = verb.split()[0]
    named = WORLD.doors[door].options.model_fields
    assert all(f"--{name.replace('_', '-')}" in out for name in named)
    if verb == "plan training":
        assert all(f"--{word}" in out for word in ("model", "devices", "device", "global-batch", "planner", "options"))
    assert len(out.splitlines()) < 60, out


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (f"{PLAN} --memory 3␣apples", ("cluster.memory: expected bytes", "3 apples")),
        (f"{PLAN} --memory 32", ("cluster.memory: should be greater than or equal to 1048576",)),
        (f"{PLAN} --intra-node-bandwidth 25␣GB", ("intra_node_bandwidth: expected bytes per second",)),
        (PLAN.replace("--devices 2", "--devices 1000000000"), ("cluster.devices: should be less than or equal",)),
        (f"{PLAN} --global-bach 4", ("No such option: --global-bach", "--global-batch")),
        (f"{PLAN} --set global_bach=4", ("global_bach", "global_batch")),
        (f"{PLAN} --csv x.csv", ("csv: goes with planner search alone",)),
        (f"{PLAN} --top 3", ("top: goes with planner search alone",)),
        (f"{PLAN} --planner search --picture x.png", ("picture: shows operators",)),
        (f"{PLAN} --planner megatron -o slice_profile=x.json", ("unknown option 'slice_profile'",)),
        ("plan trainig --devices 2", ("trainig", "training")),
        ("simulate plan.json other.json", ("other.json: is a plan of another world than plan.json",)),
        ("simulate plan.json no.json", ("no.json: cannot read the plan",)),
        ("run plan.json plan2.json", ("expected one plan (got 2)",)),
        ("export plan.json --out x", ("--to is missing",)),
        ("measure plan.json --model bert-large", ("model: plan.json says what is trained, 'tiny-mlp'",)),
        ("measure training --model tiny-gpt --rounds 3", ("rounds: are for the stages of a plan",)),
    ],
)
def test_one_line_each(
    words: str, parts: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name in ("plan.json", "plan2.json"):
        by_hand().save(name)
    (tmp_path / "other.json").write_text('{"kind": "meshwright/llm-plan"}')
    before = sorted(tmp_path.iterdir())
    capsys.readouterr()
    assert run([word.replace("␣", " ") for word in words.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    assert all(part in err for part in parts), err
    assert sorted(tmp_path.iterdir()) == before
