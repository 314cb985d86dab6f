"""Modules that do one thing where they are compiled and another where they run, and that change while they run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from meshwright.errors import InputError
from meshwright.profiles.graph import from_torch
from meshwright.profiles.graph.module_loss import ModuleLoss
from meshwright.profiles.graph.trace.export import AS_IT_RUNS
from meshwright.runtime.training.module_values import module_values
from meshwright.runtime.training.single import single_device
from torch import Tensor, nn


class Masked(nn.Module):
    """A mask that hides nothing is left out, but for a compiler, which sees another computation than what runs."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.ones(6)
        y = self.line(x) * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        if torch.compiler.is_compiling() or not bool(seen.all()):
            y = y + torch.tensor([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
        return y.square().mean()


def test_what_runs_is_traced_where_compilers_see_another_thing() -> None:
    module = Masked()
    inputs = (torch.zeros(4, 6),)
    graph = from_torch(module, inputs)
    (constant,) = (t.name for t in graph.parameters if not t.trainable)
    assert constant.startswith(AS_IT_RUNS)
    value = module_values(ModuleLoss(module, inputs), graph)[constant]
    assert value.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_what_depends_on_inputs_is_refused_all_the_same() -> None:
    class Choosing(Masked):
        def forward(self, x: Tensor) -> Tensor:
            y = self.line(x)
            return (y if bool((x > 0).all()) else 2 * y).square().mean()

    with pytest.raises(InputError, match=r"control flow or shapes that depend on data .*expected a static module"):
        from_torch(Choosing(), (torch.zeros(4, 6),))


class Hooked(nn.Module):
    """Hangs a hook on its layer when it first runs, and sees what the layer gave."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.ready = nn.Linear(6, 6), False

    def forward(self, x: Tensor) -> Tensor:
        seen: list[Tensor] = []
        self.seen = seen
        if not self.ready:
            self.ready = True
            self.line.register_forward_hook(lambda *_: self.seen.append(_[-1]))
        return self.line(x).mean() + sum(y.square().mean() for y in seen)


def test_hooks_of_a_trial_are_taken_off() -> None:
    module: Any = Hooked()
    from_torch(module, (torch.zeros(4, 6),))
    assert not module.line._forward_hooks
    assert not module.ready


def test_a_layer_that_is_brought_to_its_own_dtype() -> None:
    class Brought(Masked):
        def forward(self, x: Tensor) -> Tensor:
            self.line = self.line.to(torch.float32)
            return self.line(x).square().mean()

    assert len(from_torch(Brought(), (torch.zeros(4, 6),)).parameters) == 2


def test_places_and_waits_that_are_drawn() -> None:
    class Drawing(Masked):
        def forward(self, x: Tensor) -> Tensor:
            picked = self.line(x)[:, torch.randint(0, 6, (3,))]
            return (picked.square() + torch.empty_like(picked).exponential_(2.0)).mean()

    graph = from_torch(Drawing(), (torch.zeros(4, 6),))
    drawn = [op.attributes["fn"] for op in graph.operators if op.attributes.get("fn") in ("uniform", "log")]
    assert drawn.count("uniform") == 2

    class Waiting(Masked):
        def forward(self, x: Tensor) -> Tensor:
            return (0.0 * self.line(x) + torch.empty_like(x).exponential_(2.0)).mean()

    graph = from_torch(Waiting(), (torch.zeros(4, 6),)).with_batch(4000)
    (loss,) = single_device(graph, seed=0, microbatches=1).losses
    assert loss == pytest.approx(0.5, abs=4 * 0.5 / (4000 * 6) ** 0.5)  # 1 / rate, four standard errors
