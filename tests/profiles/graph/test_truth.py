"""`from_torch` never lies: what it returns computes what the module computes, all else is one clear error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from flattened_modules import QKV, REFUSED, RIGHT, Formed, formed, fused_attention, matmul_attention, written
from meshwright.errors import InputError
from meshwright.profiles.graph import Graph, from_torch
from meshwright.profiles.graph.trace import check, walk
from meshwright.profiles.graph.trace import module as trace
from meshwright.profiles.graph.trace.step import Step
from test_traced import same_as_module
from torch import Tensor, nn

CALLED = ("classes of what is merged", "lstm", "written in part", "read in part", "complex")
"""Modules with calls, or losses, that the plain interpreter lacks."""

SAMPLES = torch.randn(2, 4, 4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("name", RIGHT)
def test_what_merges_and_parts_is_followed(name: str) -> None:
    """By the other interpreter of these tests, too, which knows nothing of the one that `from_torch` checks with."""
    torch.manual_seed(0)
    if name in ("dropout", "nll", "constant", *CALLED):  # not for the plain interpreter
        graph = from_torch(formed(RIGHT[name]), (SAMPLES.float(),))
    else:
        graph = same_as_module(formed(RIGHT[name]), {"x": SAMPLES})
    assert "; compared with it in float64: the loss and " in graph.source


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_followed_is_one_line(name: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(InputError) as caught:
        from_torch(formed(REFUSED[name]), (SAMPLES.float(),))
    assert REFUSED[name][2] in str(caught.value)
    assert "\n" not in str(caught.value)


def wrong_axis(step: Step) -> Any:
    """A softmax over the axis before."""
    handler = walk.layers.HANDLERS["softmax"]
    return handler(Step(step.draft, step.op, {**step.args, "dim": step.args["dim"] - 1}, step.sizes, step.dtypes))


def half(step: Step) -> Any:
    """A scale that is a little off."""
    made = walk.layers.HANDLERS["softmax"](step)
    return walk.elementwise.pointwise(step, "scale", [made], factor=1.0 + 1e-5)


def no_way_back(step: Step) -> Any:
    """The right value, without its gradient."""
    return walk.elementwise.HANDLERS["detach"](
        Step(step.draft, step.op, {"self": walk.layers.HANDLERS["softmax"](step)}, step.sizes, step.dtypes)
    )


@pytest.mark.parametrize("large", [False, True], ids=["run whole", "call by call"])
@pytest.mark.parametrize("fault", [wrong_axis, half, no_way_back])
def test_a_wrong_handler_is_found_and_named(fault: Any, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "HANDLERS", {**walk.HANDLERS, "softmax": fault})
    if large:
        monkeypatch.setattr(check, "FLOPS", 0.0)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(4, 4, 1), Formed(matmul_attention, qkv=nn.Conv2d(4, 12, 1)))
    with pytest.raises(InputError, match=r"aten\.softmax\.int in module '1': is traced as something else") as caught:
        from_torch(net, (SAMPLES.float(),))
    assert "\n" not in str(caught.value)


def test_wrong_wiring_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no single call shows."""

    def swapped(operators: Any, constants: Any, inference: bool) -> Any:
        made = list(operators)
        i = next(i for i, op in enumerate(made) if op.kind == "contraction")
        made[i] = replace(made[i], attributes={**made[i].attributes, "scale": 0.5})
        return made

    monkeypatch.setattr(trace, "tidied", swapped)
    with pytest.raises(InputError, match=r"the graph's loss is .*, the module's .*: the trace does not follow it"):
        from_torch(Formed(matmul_attention, qkv=nn.Conv2d(4, 12, 1)), (SAMPLES.float(),))


def test_a_large_module_says_how_it_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.device("meta"):
        net = Formed(fused_attention, qkv=nn.Conv2d(512, 1536, 1)).half()
        graph = from_torch(net, (torch.empty(2, 512, 64, 64, dtype=torch.float16),))
    assert "; too large to run, its " in graph.source
    assert graph.source.endswith("distinct calls compared with torch's on small sizes")
    monkeypatch.setattr(check, "FLOPS", 0.0)
    part = from_torch(Formed(written, one=nn.Conv2d(4, 4, 1)), (SAMPLES.float(),))
    assert "; too large to run, its " in part.source


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_every_dtype_and_device_is_checked_alike(dtype: torch.dtype, device: str) -> None:
    net = Formed(fused_attention, **{k: make() for k, make in QKV.items()}).to(dtype).to(device)
    x = torch.zeros(2, 4, 4, 6, dtype=dtype, device=device)
    assert "compared with it in float64: the loss and 2 gradients" in from_torch(net, (x,)).source


class Keeps(nn.Module):
    """Keeps what it computed, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.table: Tensor | None = None
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.table = torch.arange(4, dtype=x.dtype)
        return (self.norm(self.line(x)) * self.table).square().mean()


def test_module_and_random_numbers_are_left_alone() -> None:
    net = Keeps()
    net.line.weight.grad = torch.ones(4, 4)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state, default = torch.get_rng_state(), torch.get_default_dtype()
    from_torch(net, (torch.zeros(4, 4),))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert (net.calls, net.table, net.training) == (0, None, True)
    assert torch.equal(net.line.weight.grad, torch.ones(4, 4))
    assert net.line.bias.grad is None
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == default
    assert all(p.dtype == torch.float32 for p in net.parameters())


def test_a_module_that_cannot_run_is_said() -> None:
    class Log(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return (self.line(x).abs() * -1).log().mean()

    with pytest.raises(InputError, match="cannot be checked: run on random values, its loss or a gradient is not fin"):
        from_torch(Log(), (torch.ones(2, 4),))


def test_the_same_graph_again_is_the_same_bytes() -> None:
    torch.manual_seed(0)
    graphs: list[Graph] = [from_torch(formed(RIGHT["windows"]), (SAMPLES.float(),)) for _ in range(2)]
    assert graphs[0].to_json() == graphs[1].to_json()
