"""Exported programs in processes as torchrun starts them, and once by torchrun: they train as one device does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import ranks
from meshwright.errors import InputError
from meshwright.profiles.graph import Graph, zoo_graph
from meshwright.profiles.graph.models.language import Llama
from meshwright.runtime.export.training import export_training
from meshwright.runtime.export.training.torch import dtensor_placements, why_no_chain
from meshwright.simulator.training.plan.file import TrainingPlan
from sharded_plans import sharded_plan

torch = pytest.importorskip("torch", reason="torch is not installed")

ITERATIONS = 3
SMALL = {"layers": 2, "hidden": 16, "heads": 4, "ffn": 32, "vocab": 32, "seq": 4, "dtype": "float32"}


def torchrun(script: Path, processes: int, arguments: Sequence[str]) -> str:
    """What a program prints under torchrun itself; whatever happens nothing of it is left."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)),
        script.name, *arguments,
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        command, cwd=script.parent, env=environment, timeout=120, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def single(plan: TrainingPlan, graph: Graph, folder: Path) -> Any:
    """The run on one device; its parameters and inputs as files for the exported program."""
    from meshwright.runtime.training.optimizer import Optimizer
    from meshwright.runtime.training.single import make_input, make_parameter, single_device

    sized = graph.with_batch(plan.microbatch)
    values = {t.name: make_parameter(graph, t.name, 0, "float32").numpy() for t in graph.parameters}
    np.savez(folder / "parameters.npz", **values)
    batch = {
        f"{t.name}.{i}.{m}": make_input(sized, t.name, 0, i, m, "float32").numpy()
        for t in graph.inputs
        for i in range(ITERATIONS)
        for m in range(plan.microbatches)
    }
    np.savez(folder / "data.npz", **batch)
    optimizer = Optimizer(plan.model.optimizer, 1e-3)
    more: dict[str, Any] = {"seed": 0, "microbatches": plan.microbatches, "dtype": "float32", "optimizer": optimizer}
    return single_device(sized, iterations=1, **more), single_device(sized, iterations=ITERATIONS, **more).losses


def same(folder: Path, reference: Any) -> None:
    found = np.load(folder / "gradients.npz")
    assert float(found["loss"]) == pytest.approx(reference.losses[0], rel=1e-5)
    assert set(found.files) == {"loss", *reference.gradients}
    largest = max(float(g.abs().max()) for g in reference.gradients.values())
    for name, gradient in reference.gradients.items():
        expected = gradient.numpy()
        size = float(np.abs(expected).max())
        scale = size if size > 1e-6 * largest else largest  # of a key's bias: zero but for rounding
        assert np.abs(found[name] - expected).max() <= 1e-5 * scale, name


def exported(plan: TrainingPlan, graph: Graph, folder: Path) -> Path:
    export_training(plan, "torch", folder, graph=graph)
    return folder


def zero(made: list[Any]) -> list[Any]:
    """Gradients and Adam's moments are cut over the data-parallel axis where weights are not (ZeRO-2)."""
    cut = [{n: "S0" + spec[1:] for n, spec in stage.parameters.items() if spec.startswith("R")} for stage in made]
    return [s.model_copy(update={"optimizer_states": c}) for s, c in zip(made, cut, strict=True)]


def with_optimizer(plan: TrainingPlan, name: str) -> TrainingPlan:
    return plan.model_copy(update={"model": plan.model.model_copy(update={"optimizer": name})})


CASES: dict[str, tuple[Graph, tuple[int, ...], tuple[int, int], dict[str, Any]]] = {
    "samples, tensors, vocabulary and states cut, 4 processes": (
        Llama(**SMALL).graph("small"),
        (2,),
        (2, 2),
        {"stages": zero},
    ),
    "two stages of two devices, 4 processes": (Llama(**SMALL).graph("small"), (1, 1), (1, 2), {}),
    "momentum, 2 processes, by torchrun": (Llama(**SMALL).graph("small"), (2,), (1, 2), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_torch_alone_trains_like_one_device(case: str, tmp_path: Path) -> None:
    graph, layers, logical, changes = CASES[case]
    plan = sharded_plan(graph, layers, logical, global_batch=8, microbatches=2, **changes)
    if "momentum" in case:
        plan = with_optimizer(plan, "momentum")
    folder = exported(plan, graph, tmp_path / "x")
    texts = [(folder / name).read_text() for name in ("train_torch.py", "stages.py", "meshed.py")]
    assert not re.search(r"^\s*(import|from) meshwright", "".join(texts), re.MULTILINE)
    reference, losses = single(plan, graph, folder)
    begin = torchrun if "torchrun" in case else ranks
    said = begin(
        folder / "train_torch.py", sum(m.devices for m in plan.meshes),
        ["--iterations", str(ITERATIONS), "--parameters", "parameters.npz", "--data", "data.npz",
         "--gradients", "gradients.npz"],
    )  # fmt: skip
    same(folder, reference)
    found = [float(x) for x in re.findall(r"loss (\S+)", said)]
    assert found == pytest.approx(losses, rel=1e-5)  # later ones after steps of the optimiser


def test_the_runtime_trains_what_is_no_chain(tmp_path: Path) -> None:
    """GPT's output layer is tied to its embedding: two stages share a parameter, and torch's pipelines cannot."""
    graph = zoo_graph("tiny-gpt")
    plan = sharded_plan(graph, (2, 2), (1, 1), global_batch=8, microbatches=2)
    folder = exported(plan, graph, tmp_path / "x")
    assert not (folder / "train_torch.py").exists()
    assert "stages 0 and 1 share parameter 'embedding.weight'" in (folder / "README.md").read_text()
    reference, _ = single(plan, graph, folder)
    ranks(folder / "train.py", 2, ["--iterations", "1", "--gradients", "gradients.npz"])
    same(folder, reference)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schedule": "zb_h1"}, "schedule zb_h1 is none of 1f1b, gpipe"),
        ({"schedule": "interleaved_1f1b", "meshes": 1, "layers": (1, 1)}, "schedule interleaved_1f1b is none of"),
        ({"stages": lambda made: [s.model_copy(update={"recompute": "full"}) for s in made]}, "recomputes"),
        ({"stages": lambda made: [s.model_copy(update={"operators": {}}) for s in made]}, "does not say"),
    ],
)
def test_why_torch_alone_cannot(changes: dict[str, Any], reason: str) -> None:
    graph = Llama(**SMALL).graph("small-llama")
    said = {"layers": (1, 1)} | changes
    plan = sharded_plan(graph, said.pop("layers"), (1, 2), **said)
    assert reason in why_no_chain(plan, graph.with_batch(plan.microbatch))
    adafactor = why_no_chain(with_optimizer(plan, "adafactor"), graph.with_batch(plan.microbatch))
    assert adafactor == "torch's Adafactor takes no shards"


def test_a_mixture_of_experts_runs_by_the_runtime_only() -> None:
    graph = zoo_graph("tiny-moe")
    plan = sharded_plan(graph, (4,), (1, 2))
    assert why_no_chain(plan, graph.with_batch(plan.microbatch)) == "'layers.1.moe.gate.top' is a gate"


def test_placements_are_torchs(tmp_path: Path) -> None:
    """What the file says is what DTensor calls it, for every spec of Table 1 on two dimensions."""
    from torch.distributed.tensor import Replicate, Shard

    expected = {
        "RR": (Replicate(), Replicate()), "S0S1": (Shard(0), Shard(1)), "S1S0": (Shard(1), Shard(0)),
        "S0R": (Shard(0), Replicate()), "S1R": (Replicate(), Shard(0)), "RS0": (Shard(1), Replicate()),
        "RS1": (Replicate(), Shard(1)), "S01R": (Shard(0), Shard(0)), "RS01": (Shard(1), Shard(1)),
    }  # fmt: skip
    for spec, placements in expected.items():
        said = dtensor_placements(spec, 2, (2, 2), "x")
        assert tuple(eval(x, {"Shard": Shard, "Replicate": Replicate}) for x in said) == placements
    assert dtensor_placements("S0S1", 2, (2, 1), "x") == ["Shard(0)", "Replicate()"]  # an axis of one cuts nothing
    with pytest.raises(InputError, match="sharding spec of 2 dimensions"):
        dtensor_placements("S0S0", 2, (2, 2), "x")
    graph = zoo_graph("tiny-gpt")
    folder = exported(sharded_plan(graph, (2, 2), (2, 2)), graph, tmp_path / "x")
    document = json.loads((folder / "placements.json").read_text())
    names = [name for stage in document["stages"] for name in stage["activations"]]
    assert names == [op.name for op in graph.operators]
    assert {n for stage in document["stages"] for n in stage["parameters"]} == {t.name for t in graph.parameters}
    up = document["stages"][0]["parameters"]["layers.0.mlp.up.weight"]
    assert up == {
        "shape": [32, 128], "dtype": "float32", "spec": "RS1", "placements": ["Replicate()", "Shard(1)"],
    }  # fmt: skip
    assert TrainingPlan.load(folder / "plan.json").model.graph == "graph.json"


def test_the_verb_exports_a_training_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from meshwright.cli import run

    path = sharded_plan(zoo_graph("tiny-mlp"), (4,), (2, 1)).save(tmp_path / "plan.json")
    assert run(["export", str(path), "--to", "torch", "--out", str(tmp_path / "x")]) == 0
    assert "torchrun" in capsys.readouterr().out
    assert (tmp_path / "x/train.py").exists()
    assert run(["export", str(path), "--to", "vllm", "--out", str(tmp_path / "y")]) == 2
    assert "unknown target 'vllm'; expected one of torch, megatron, deepspeed" in capsys.readouterr().err
    assert not (tmp_path / "y").exists()
