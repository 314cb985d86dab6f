"""A placement's folder runs without Meshwright: eager's result, and the same bits each time, on every backend."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from meshwright.errors import InputError

torch = pytest.importorskip("torch")
from meshwright.profiles.backends import Backend  # noqa: E402
from meshwright.runtime.backends import available, backends, capture, flat  # noqa: E402
from meshwright.runtime.backends.capture import Captured  # noqa: E402
from meshwright.runtime.collage.placed import Compiler, Unit  # noqa: E402
from meshwright.runtime.export.collage import export_placement  # noqa: E402
from torch import nn  # noqa: E402

ALONE = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "meshwright":
            raise ModuleNotFoundError("meshwright is not here")

sys.meta_path.insert(0, Nowhere())
sys.path.insert(0, sys.argv[1])
import torch
import run

network = run.Network()
first, second = network(*network.example), network(*network.example)
other = torch.load(sys.argv[2], weights_only=True)
print(torch.equal(first, second), run.main())
torch.save(network(other), sys.argv[3])
"""
"""A process that cannot import Meshwright: argv is the folder, an input, and where its result goes."""


class Net(nn.Module):
    """Image operators, then rows that are read as transposed views."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, images):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(images))), 2)
        return self.out(x.flatten(2).transpose(1, 2)).softmax(-1)


@pytest.fixture(scope="module")
def captured() -> Captured:
    torch.manual_seed(0)
    return capture(Net().eval(), [torch.rand(2, 3, 8, 8)])


def cut(captured: Captured, *names: str) -> list[Unit]:
    """The operators in stretches of one length, on backends in turn."""
    ids = [node.id for node in captured.graph.nodes]
    step = -(-len(ids) // len(names))
    return [Unit(name, tuple(ids[k * step : (k + 1) * step])) for k, name in enumerate(names) if ids[k * step :]]


@pytest.mark.parametrize(
    "names",
    [
        ("onnxruntime", "torch-onednn", "openvino"),
        ("torch-native", "torch-jit", "torch-nhwc", "torch-jit-optimized"),
        pytest.param(("onnxruntime-dynamo", "torch-onednn"), marks=pytest.mark.slow),
        pytest.param(("openvino", "onnxruntime"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_a_folder_runs_by_itself(captured: Captured, names: tuple[str, ...], tmp_path: Path) -> None:
    missing = [name for name in names if available()[name]]
    if missing:
        pytest.skip(available()[missing[0]])
    if "torch-nhwc" in names:  # it takes images alone
        ids = [node.id for node in captured.graph.nodes]
        units = [Unit("torch-nhwc", (ids[0],)), Unit("torch-native", (ids[1],)),
                 Unit("torch-jit", tuple(ids[2:4])), Unit("torch-jit-optimized", tuple(ids[4:]))]  # fmt: skip
    else:
        units = cut(captured, *names)
    placed = Compiler(captured, backends(names)).placed(units)
    export_placement(placed, "net", tmp_path / "out")
    other = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    torch.save(other, tmp_path / "other.pt")
    said = [sys.executable, "-c", ALONE, "out", "other.pt", "result.pt"]
    done = subprocess.run(said, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["True", "0"]
    assert f"net: {len(units)} units" in done.stdout
    found = torch.load(tmp_path / "result.pt", weights_only=True)
    with torch.no_grad():
        (wanted,) = captured.module(other)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(placed(other), wanted, rtol=1e-5, atol=1e-6)
    plan = json.loads((tmp_path / "out/placement.json").read_text())
    assert [step["backend"] for step in plan["steps"]] == [unit.backend for unit in units]


def test_a_folder_that_is_another_network_says_so(captured: Captured, tmp_path: Path) -> None:
    """Its program holds the result against eager's, and ends with 1."""
    placed = Compiler(captured, backends(["torch-onednn"])).placed(cut(captured, "torch-onednn"))
    export_placement(placed, "net", tmp_path / "out")
    held = torch.load(tmp_path / "out/example.pt", weights_only=True)
    held[-1] = held[-1] * 1.001
    torch.save(held, tmp_path / "out/example.pt")
    done = subprocess.run([sys.executable, "out/run.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "this is not the network that was exported" in done.stderr


def test_a_backend_without_a_form_of_its_own_is_refused(captured: Captured, tmp_path: Path) -> None:
    """Nothing is written."""

    class Own(Backend):
        name = "own"

        def compile(self, subgraph: object, example: object) -> object:
            return flat(subgraph)  # type: ignore[arg-type]

    placed = Compiler(captured, [Own()]).placed(cut(captured, "own"))
    with pytest.raises(InputError, match="units of 'own' have no form that runs without Meshwright"):
        export_placement(placed, "net", tmp_path / "out")
    assert not (tmp_path / "out").exists()
