"""Graphs are kept by what a run of their module does: the same graph with other weights, and never a stale one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.runtime.backends import keeping
from meshwright.runtime.backends.fingerprint import fingerprint

torch = pytest.importorskip("torch")
from meshwright.runtime.backends import capture, capture_kept  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class Net(nn.Module):
    """Convolution, a buffer that no state_dict has, a split, attributes of all kinds, and a way that a flag takes."""

    def __init__(self, seed: int = 0, how: str = "") -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.register_buffer("scale", torch.rand(8, 1, 1), persistent=False)
        self.how, self.outside = how, torch.rand(1)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)), inplace=True) * self.scale
        if self.how == "another attribute":
            return F.softmax(x, 1)
        if self.how == "another function":
            return torch.sigmoid(x)
        if self.how == "another order":
            one, other = x.split(4, 1)
            return F.softmax(torch.cat([other, one], 1), -1)
        if self.how == "depends on data":
            x = x * 2 if x.sum() > 1e9 else x
        if self.how == "a tensor from outside":
            x = x + self.outside
        if self.how == "two results":
            return x, x
        one, other = x.split(4, 1)
        x = torch.cat([one, other.masked_fill(other > 5, float("-inf")).to(torch.float64).to(torch.float32)], 1)
        return F.softmax(x, -1)


X = torch.rand(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def files(folder: Path) -> int:
    return len(list(folder.glob("*.json"))) if folder.exists() else 0


def test_the_second_time_nothing_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is the one that capture gives, and runs with the new module's weights."""
    first = capture_kept(Net().eval(), [X], tmp_path / "graphs")
    assert files(tmp_path / "graphs") == 1
    monkeypatch.setattr(keeping, "capture", None)
    other = Net(seed=1).eval()
    found = capture_kept(other, [X], tmp_path / "graphs")
    assert found.graph == first.graph == capture(other, [X]).graph
    assert [(n.op, n.name, str(n.target)) for n in found.module.graph.nodes][1:] == [
        (n.op, n.name, str(n.target)) for n in first.module.graph.nodes
    ][1:]
    with torch.no_grad():
        assert torch.equal(found.module(X)[0], other(X))
        assert not torch.equal(first.module(X)[0], other(X))
    assert found.sources == first.sources


@pytest.mark.parametrize("how", ["another attribute", "another function", "another order"])
def test_another_module_gets_its_own(tmp_path: Path, how: str) -> None:
    """Of the same class, parameters and shapes."""
    capture_kept(Net().eval(), [X], tmp_path)
    module = Net(how=how).eval()
    found = capture_kept(module, [X], tmp_path)
    assert found.graph == capture(module, [X]).graph
    assert files(tmp_path) == 2


def test_what_decides_the_graph_decides_the_digest() -> None:
    """Shapes, strides and types of inputs, types of parameters, who reads it; not weights, not values."""
    module = Net().eval()

    def digest(module: nn.Module, x: torch.Tensor, reader: str = "") -> str:
        found = fingerprint(module, [x], reader)
        assert found is not None
        return found.digest

    same = digest(module, X)
    assert digest(Net(seed=3).eval(), torch.rand(2, 3, 6, 6)) == same
    others = [
        digest(module, X[:1]), digest(module, X.transpose(2, 3)), digest(module, X, "another"),
        digest(module.double(), X.double()),
    ]  # fmt: skip
    assert len({same, *others}) == 5


@pytest.mark.parametrize(
    ("how", "kept"), [("depends on data", None), ("two results", None), ("a tensor from outside", 0)]
)
def test_what_a_run_does_not_determine_is_captured_each_time(tmp_path: Path, how: str, kept: int | None) -> None:
    """Or refused, as capture refuses it."""
    module = Net(how=how).eval()
    assert fingerprint(module, [X]) is None
    if kept is None:
        with pytest.raises(InputError, match="capture: "):
            capture_kept(module, [X], tmp_path)
    else:
        found = capture_kept(module, [X], tmp_path)
        with torch.no_grad():
            assert torch.equal(found.module(X)[0], module(X))
    assert files(tmp_path) == 0


def test_modules_in_training_and_damaged_files_are_refused(tmp_path: Path) -> None:
    """A file whose graph is another than was written, one of another version, one that is cut."""
    with pytest.raises(InputError, match="in training"):
        capture_kept(Net(), [X], tmp_path)
    module = Net().eval()
    capture_kept(module, [X], tmp_path)
    (path,) = tmp_path.glob("*.json")
    whole = path.read_text()
    said = json.loads(whole)
    for text in (
        whole[:100], json.dumps({**said, "version": 0}), "[]",
        json.dumps({**said, "body": said["body"].replace("softmax", "log_softmax")}),
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(InputError, match="damaged: it is not what was written; delete it"):
            capture_kept(module, [X], tmp_path)
    path.unlink()
    capture_kept(module, [X], tmp_path)
    assert path.read_text() == whole, "the same file each time"
