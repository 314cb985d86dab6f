"""Running statistics of batch norms: after a run, the state dict holds what torch's own loop over microbatches has."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from meshwright.errors import InputError  # noqa: E402
from meshwright.profiles.graph import from_torch, load_graph, save_graph  # noqa: E402
from meshwright.profiles.graph.module_loss import ModuleLoss  # noqa: E402
from meshwright.profiles.graph.running import running_buffers  # noqa: E402
from meshwright.runtime.export.training import export_training  # noqa: E402
from meshwright.runtime.training import Own, TrainingSession, run_training  # noqa: E402
from meshwright.runtime.training.hand_plan import hand_plan  # noqa: E402
from meshwright.runtime.training.own.weights import load_weights, save_weights  # noqa: E402
from meshwright.runtime.training.own.words import optimizer_of  # noqa: E402
from torch import nn  # noqa: E402

SAMPLES, MICROBATCHES, ITERATIONS, WITHIN = 8, 2, 3, 1e-12
SGD = "sgd:lr=0.1"
DATA = f"""
import torch

def batches():
    draw = torch.Generator().manual_seed(3)
    while True:
        yield {{
            "x": 2 * torch.randn({SAMPLES}, 3, 6, 6, generator=draw, dtype=torch.float64) + 1,
            "labels": torch.randn({SAMPLES}, 2, generator=draw, dtype=torch.float64),
        }}
"""


class Net(nn.Module):
    """Norms of images and of vectors, one without weights, one that counts nothing, and one that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.na = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.b, self.nb = nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6, momentum=0.3, affine=False)
        self.twice, self.bare = nn.BatchNorm1d(6, eps=1e-3), nn.BatchNorm1d(6, track_running_stats=False)
        self.out = nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.na(self.a(x)))
        x = self.nb(self.b(x)).square().mean((2, 3))
        return self.out(self.bare(self.twice(self.twice(x) * 2 + 1)))


def batches() -> Iterator[dict[str, Any]]:
    names: dict[str, Any] = {}
    exec(DATA, names)
    return names["batches"]()


def made() -> tuple[nn.Module, ModuleLoss, Any]:
    torch.manual_seed(0)
    module, inputs, labels = Net().double(), (torch.zeros(4, 3, 6, 6),), torch.zeros(4, 2)
    with torch.no_grad():
        for x in module.buffers():
            x.copy_(torch.rand_like(x) + 0.5 if x.is_floating_point() else torch.tensor(7))
    graph = from_torch(module.float(), inputs, loss="mse", labels=labels)
    return module.double(), ModuleLoss(module, inputs, "mse", labels), graph


def own_loop(module: nn.Module) -> dict[str, Any]:
    """Torch's: each microbatch through the module, and a step on the mean of their gradients."""
    step = torch.optim.SGD(module.parameters(), lr=0.1)
    for _, batch in zip(range(ITERATIONS), batches(), strict=False):
        step.zero_grad()
        for x, y in zip(batch["x"].chunk(MICROBATCHES), batch["labels"].chunk(MICROBATCHES), strict=True):
            (nn.functional.mse_loss(module(x), y) / MICROBATCHES).backward()
        step.step()
    return module.state_dict()


def apart(found: Any, expected: Any) -> dict[str, float]:
    assert found.keys() == expected.keys()
    return {name: float((found[name] - x).abs().max()) for name, x in expected.items()}


@pytest.mark.parametrize("meshes", [[(2, 1)], [(1, 1), (1, 1)]], ids=["data parallel", "two stages"])
def test_a_run_keeps_them_as_torchs_loop_does(session: TrainingSession, meshes: list[tuple[int, int]]) -> None:
    """Cut over devices, a norm takes the statistics of the whole microbatch, and so do the buffers."""
    module, whole, graph = made()
    plan = hand_plan(graph, meshes=meshes, global_batch=SAMPLES, microbatches=MICROBATCHES)
    own = Own(batches(), module.state_dict(), optimizer_of(SGD, None, [], None), whole)
    run = run_training(plan, graph, iterations=ITERATIONS, dtype="float64", compare=True, own=own, session=session)
    before = {name: x.clone() for name, x in module.state_dict().items()}
    found = run.state_dict()
    expected = own_loop(module)
    assert run.difference is not None
    assert run.difference.largest < 1e-10
    assert int(found["na.num_batches_tracked"]) == 7 + ITERATIONS * MICROBATCHES
    assert int(found["twice.num_batches_tracked"]) == 7 + 2 * ITERATIONS * MICROBATCHES
    assert float((before["nb.running_var"] - expected["nb.running_var"]).abs().max()) > 0.1  # there is something to see
    assert max(apart(found, expected).values()) < WITHIN
    module.load_state_dict(found, strict=True)


def test_a_file_keeps_which_they_are_and_what_is_no_statistic_is_refused(tmp_path: Path) -> None:
    graph = made()[2]
    again = load_graph(save_graph(graph, tmp_path / "g.json"))
    assert again == graph
    assert running_buffers(again.operators)["nb.running_var"] == (6,)
    assert running_buffers(again.operators)["twice.num_batches_tracked"] == ()
    assert "bare.running_mean" not in running_buffers(again.operators)
    text = (tmp_path / "g.json").read_text()
    (tmp_path / "bad.json").write_text(text.replace('"momentum": 0.3', '"momentum": 1.5'))
    with pytest.raises(InputError, match=r"momentum: expected a number from 0 to 1 \(got 1.5\)"):
        load_graph(tmp_path / "bad.json")


@pytest.mark.slow
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_an_exported_program_keeps_them_too(recompute: str, tmp_path: Path) -> None:
    """Two processes of the program; recomputed norms are not counted twice."""
    module, whole, graph = made()
    plan = hand_plan(graph, meshes=[(2, 1)], global_batch=SAMPLES, microbatches=MICROBATCHES, recompute=recompute)
    export_training(plan, "torch", tmp_path / "program", graph=graph, module=whole)
    save_weights(tmp_path / "in.safetensors", module.state_dict())
    (tmp_path / "data.py").write_text(DATA)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    said = ["--data", "data.py:batches", "--weights", "in.safetensors", "--save", "out.safetensors", "--optimizer", SGD,
            "--iterations", str(ITERATIONS), "--dtype", "float64"]  # fmt: skip
    started = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "program" / "train.py"), *said], cwd=tmp_path,
            env=os.environ | {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                              "OMP_NUM_THREADS": "1"},
        ) for rank in "01"
    ]  # fmt: skip
    assert [one.wait(timeout=240) for one in started] == [0, 0]
    assert max(apart(load_weights(tmp_path / "out.safetensors"), own_loop(module)).values()) < WITHIN
