"""Modules as operators: what is captured computes the same, and what cannot be is refused in one line."""

from __future__ import annotations

import pickle

import pytest
from meshwright.errors import InputError

torch = pytest.importorskip("torch")
from meshwright.runtime.backends import capture, flat, subgraph  # noqa: E402
from meshwright.runtime.backends.transfer import restored, stored  # noqa: E402
from torch import nn  # noqa: E402


class Block(nn.Module):
    """A residual block with an activation in place, dropout, and a tensor in two parts."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.act, self.drop, self.out = nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(channels, 3)

    def forward(self, x):
        x = self.act(self.norm(self.conv(x)) + x)
        left, right = torch.chunk(self.drop(x.mean((2, 3))), 2, 1)
        return self.out(torch.cat([right, left], 1))


@pytest.fixture
def block():
    torch.manual_seed(0)
    return Block().eval(), torch.randn(2, 4, 6, 6)


def test_captured_operators(block) -> None:
    """In place becomes new, dropout vanishes, parts of a tensor are nodes of their own."""
    captured = capture(block[0], [block[1]])
    ops = [node.op for node in captured.graph.nodes]
    assert ops == ["conv2d", "batch_norm", "add", "relu", "mean", "chunk", "chunk", "cat", "linear"]
    conv, *_, part, other, _, _ = captured.graph.nodes
    assert conv.attributes == (("stride", (1, 1)), ("padding", (1, 1)), ("dilation", (1, 1)), ("groups", 1))
    assert conv.shapes == ((2, 4, 6, 6), (4, 4, 3, 3))
    assert (part.attribute("result"), other.attribute("result")) == (0, 1)
    assert captured.graph.output == "linear"
    torch.testing.assert_close(captured.module(block[1])[0], block[0](block[1]), rtol=0, atol=0)


def test_parts_compute_what_the_whole_does(block) -> None:
    captured = capture(block[0], [block[1]])
    graph, values = captured.graph, {"x": block[1]}
    for members in (0b1, 0b1110, 0b10000, 0b100000, 0b111000000):
        ids = [node.id for k, node in enumerate(graph.nodes) if members >> k & 1]
        part = subgraph(captured, ids)
        given = [values[name] for name in graph.reads(members)]
        by_module, by_function = part(*given), flat(part)(*given)
        assert len(by_module) == len(graph.results(members))
        assert all(torch.equal(one, other) for one, other in zip(by_module, by_function, strict=True))
        values |= dict(zip(graph.results(members), by_function, strict=True))
    assert torch.equal(values["linear"], block[0](block[1]))


def test_parts_that_cannot_run_alone(block) -> None:
    captured = capture(block[0], [block[1]])
    with pytest.raises(InputError, match="a way leads out"):
        subgraph(captured, ["conv2d", "add"])
    with pytest.raises(InputError, match="no node is called"):
        subgraph(captured, ["conv3d"])
    with pytest.raises(InputError, match="at least one"):
        subgraph(captured, [])


def test_sent_to_another_process(block) -> None:
    """Names stay, so do results."""
    captured = capture(block[0], [block[1]])
    again = restored(pickle.loads(pickle.dumps(stored(captured))))
    assert again.graph == captured.graph
    assert [node.name for node in again.module.graph.nodes] == [node.name for node in captured.module.graph.nodes]
    assert torch.equal(again.module(*again.example)[0], block[0](block[1]))


class Calls(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _written(x):
    y = x * 2
    view = y.view(-1)
    y.relu_()
    return view + 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: (x, x + 1), "expected a module that gives one tensor"),
        (lambda x: x.relu_(), "expected a module that gives one tensor|writes into"),
        (_written, "writes into"),
        (lambda x: x[x > 0], "depends on data"),
        (lambda x: x if x.sum() > 0 else -x, "cannot be exported"),
    ],
)
def test_what_cannot_be_captured(function, words) -> None:
    with pytest.raises(InputError, match=words) as caught:
        capture(Calls(function).eval(), [torch.randn(3, 4)])
    assert "\n" not in str(caught.value)


def test_training_is_refused(block) -> None:
    with pytest.raises(InputError, match=r"call module.eval\(\) first"):
        capture(block[0].train(), [block[1]])
    with pytest.raises(InputError, match="a sequence of tensors"):
        capture(block[0].eval(), [])
