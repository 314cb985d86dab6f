"""Norms by the root mean square that a module writes out are one operator, and still compute what the module does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from meshwright.profiles.graph import Graph, from_torch
from torch import Tensor, nn

EPS = 1e-6
WRITTEN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rsqrt": lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)),
    "root": lambda x, w: x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * w,
    "weight and one": lambda x, w: x * (EPS + x.square().mean(2, keepdim=True)).rsqrt() * (1.0 + w),
    "of heads": lambda x, w: (y := x.view(-1, 6, 2, 4)) * torch.rsqrt(y.pow(2).mean(-1, True) + EPS) * w[:4],
}
OTHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "the root is read twice": lambda x, w: x * (r := torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)) * w * r,
    "of something else": lambda x, w: x.tanh() * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w,
    "a sum": lambda x, w: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + EPS) * w,
    "over the batch": lambda x, w: x * torch.rsqrt(x.pow(2).mean((0, 2), keepdim=True) + EPS) * w,
    "a third power": lambda x, w: x * torch.rsqrt(x.abs().pow(3).mean(-1, keepdim=True) + EPS) * w,
}


class Net(nn.Module):
    def __init__(self, norm: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), norm
        self.weight = nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.linear(x), self.weight).flatten(2)
        return (y * torch.arange(8, device=y.device)).tanh().mean()


def traced(norm: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype = torch.float32) -> Graph:
    """Loss and gradients are the module's: else it were refused."""
    torch.manual_seed(0)
    return from_torch(Net(norm).to(dtype), (torch.randn(2, 6, 8, dtype=dtype),))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_norm_that_is_written_out_is_one_operator(name: str) -> None:
    graph = traced(WRITTEN[name])
    (norm,) = [op for op in graph.operators if op.kind == "norm"]
    assert dict(norm.attributes) == {"fn": "rms", "eps": EPS}
    assert [loop.size for loop in norm.loops if loop.split == "statistic"] == [4 if name == "of heads" else 8]
    assert (len(norm.inputs), norm.saves) == (2, (0, 1))
    assert not {op.attributes.get("fn") for op in graph.operators} & {"rsqrt", "sqrt", "square", "power"}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_such_norm_stays(name: str) -> None:
    assert not any(op.kind == "norm" for op in traced(OTHERS[name]).operators)


def test_a_norm_in_float32_stands_between_its_casts() -> None:
    def norm(x: Tensor, w: Tensor) -> Tensor:
        y = x.to(torch.float32)
        return w * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype)

    operators = traced(norm, torch.bfloat16).operators
    at = next(i for i, op in enumerate(operators) if op.kind == "norm")
    assert [op.attributes.get("fn") for op in operators[at - 1 : at + 3]] == ["cast", "rms", "cast", "mul"]
    assert (operators[at].dtype, len(operators[at].inputs)) == ("float32", 1)
