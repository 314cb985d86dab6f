"""What cannot be traced: one clear line each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from meshwright.errors import InputError
from meshwright.profiles.graph import from_torch
from torch import Tensor, nn


class Inner(nn.Module):
    """A function of a tensor, as a module below another."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.linear(x))


class Outer(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.inner = Inner(function)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).float().mean()


def branch(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x


def loop(x: Tensor) -> Tensor:
    for _ in range(int(x.sum().item())):
        x = x + 1
    return x


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("function", [branch, loop])
def test_data_dependent_control_flow(function: Callable[[Tensor], Any], device: str) -> None:
    with pytest.raises(InputError) as caught:
        from_torch(Outer(function).to(device), (torch.ones(2, 4),), name="net")
    message = str(caught.value)
    assert message.startswith("net: control flow or shapes that depend on data in module 'inner'")
    assert "expected a static module" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[x > 0], "makes what has another shape for other data"),
        (lambda x: x.nonzero(), "makes what has another shape for other data"),
        (lambda x: x @ x.T @ torch.ones(x.shape[0], x.shape[0] + 1), "a size of 3 at batch 2 is 5 at batch 4"),
        (lambda x: x + torch.full((4,), 1 / x.shape[0]), "in module 'inner': has a number that depends on the batch"),
        (lambda x: torch.zeros(4, dtype=torch.complex64) + x, "takes torch.complex64, which graphs cannot say"),
        (lambda x: x + 1 if x.shape[0] > 2 else x * 2 - x, "makes other calls at batch 4 than at 2"),
        (lambda x: x + torch.randperm(4), "aten.randperm.default in module 'inner': draws random numbers"),
        (lambda x: x.as_strided((2, 2), (1, 1)), "aten.as_strided.default in module 'inner': reads or changes memory"),
        (lambda x: x.sum(0) / x.shape[0] ** 2, "in module 'inner': has a number that depends on the batch"),
        (lambda x: x.view(3, -1), "cannot be traced in module 'inner'"),
        (lambda x: undefined_name, "cannot be traced in module 'inner'"),  # type: ignore[name-defined] # noqa: F821
    ],
)
def test_what_graphs_cannot_say(function: Callable[[Tensor], Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        from_torch(Outer(function), (torch.ones(2, 4),))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_the_batch_must_be_one() -> None:
    net = nn.Bilinear(4, 4, 4)
    with pytest.raises(InputError, match=re.escape("expected inputs with one batch size in dimension 0")):
        from_torch(net, (torch.ones(2, 4), torch.ones(3, 4)))
    with pytest.raises(InputError, match="expected inputs with one batch size in dimension 3"):
        from_torch(nn.Linear(4, 4), (torch.ones(2, 4),), batch_dim=3)


def test_inputs_must_be_tensors_of_the_module() -> None:
    net = nn.Linear(4, 4)
    with pytest.raises(InputError, match=re.escape("Linear: input 'input': expected a tensor (got list)")):
        from_torch(net, ([1.0, 2.0],))
    with pytest.raises(InputError, match="Linear: inputs: too many positional arguments"):
        from_torch(net, (torch.ones(2, 4), torch.ones(2, 4)))
    with pytest.raises(InputError, match=re.escape("expected a torch.nn.Module (got str)")):
        from_torch("net", (torch.ones(2, 4),))
    with pytest.raises(InputError, match="input 'labels': expected a tensor"):
        from_torch(net, (torch.ones(2, 4),), loss="cross_entropy")


def test_there_must_be_one_loss() -> None:
    net = nn.Linear(4, 4)
    with pytest.raises(InputError, match=re.escape("expected one value, the loss (got results of shapes [(2, 4)])")):
        from_torch(net, (torch.ones(2, 4),))
    with pytest.raises(InputError, match=re.escape("loss: expected 'cross_entropy' or 'mse' or a function (got 'l1')")):
        from_torch(net, (torch.ones(2, 4),), loss="l1", labels=torch.ones(2, 4))


def test_a_loss_can_be_a_function_and_the_batch_second() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    graph = from_torch(net, (torch.ones(7, 2, 4),), loss=lambda y, t: ((y - t) ** 2).mean(), labels=torch.ones(7, 2, 4),
                       batch_dim=1)  # fmt: skip
    assert graph.batch == 2
    assert [t.batch_dims for t in graph.inputs] == [(1,), (1,)]
    assert graph.operators[0].flops == 2 * 7 * 2 * 4 * 4
    assert graph.with_batch(10).operators[0].flops == 10 * 2 * 7 * 4 * 4


def test_the_module_is_left_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    graph = from_torch(net, (torch.ones(2, 4),), loss="mse", labels=torch.ones(2, 4))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert net.training
    assert [op.attributes["fn"] for op in graph.operators if op.kind == "elementwise"][-1] == "dropout"
    assert {t.name for t in graph.parameters} == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_inputs_may_be_named_and_batches_of_one_are_batches() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3))

        def forward(self, x: Tensor, scale: Tensor, weight: Tensor | None = None) -> Tensor:
            y = x @ self.weight * scale
            return y.sum() if weight is None else (y * weight).sum()

    one = torch.ones(1, 4), torch.ones(1, 1), torch.ones(1, 3)
    graph = from_torch(Named(), {"weight": one[2], "scale": one[1], "x": one[0]})
    assert [t.name for t in graph.inputs] == ["inputs.weight", "scale", "x"]
    assert [t.name for t in graph.parameters] == ["weight"]
    assert graph.operators[0].inputs == ("x", "weight")
    grown = graph.with_batch(5)
    assert [t.shape for t in grown.inputs] == [(5, 3), (5, 1), (5, 4)]
    assert grown.operators[-2].inputs[1] == "inputs.weight"
    with pytest.raises(InputError, match="squeeze: other dimensions at batch 2 than at 1"):
        from_torch(Outer(lambda x: x.squeeze()), (torch.ones(1, 4),))


def test_data_dependent_control_flow_names_the_line_also_of_a_function() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return _branched(self.linear(x)).mean()

    with pytest.raises(InputError) as caught:
        from_torch(Branch(), (torch.zeros(2, 4),))
    message = str(caught.value)
    assert f"(test_errors.py:{_branched.__code__.co_firstlineno + 1})" in message
    assert "torch.where" in message
    assert "\n" not in message


def _branched(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * 2
    return x
