"""Half precision with float32 masters: a run's iterations are those of a plain torch loop of the same rules."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from meshwright.errors import InputError
from meshwright.profiles.graph import Graph, from_torch
from meshwright.profiles.graph.memory import state_bytes
from meshwright.profiles.graph.module_loss import ModuleLoss
from meshwright.runtime.training import Own, RunOptions, run_training
from meshwright.runtime.training.hand_plan import hand_plan
from torch import nn
from torch.nn import functional as F

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
ROUNDING = {"bf16": 2.0**-8, "fp16": 2.0**-11}
"""Half the distance of two numbers, relative to them."""
RATE, STEPS, MICROBATCHES = 0.1, 3, 2


class Model(nn.Module):
    """A norm, a product, a function, a tied table and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(16, 16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = self.table(tokens)
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return F.cross_entropy(F.linear(x, self.table.weight).flatten(0, 1), labels.flatten())


@cache
def made() -> tuple[Graph, ModuleLoss, Any]:
    torch.manual_seed(0)
    module = Model()
    tokens = torch.zeros(2, 4, dtype=torch.int64)
    graph = from_torch(module, (tokens, tokens))
    draw = torch.Generator().manual_seed(1)
    data = [tuple(torch.randint(0, 16, (8, 4), generator=draw) for _ in range(2)) for _ in range(STEPS)]
    return graph, ModuleLoss(module, (tokens, tokens)), data


def plain(precision: str) -> tuple[list[float], dict[str, Any]]:
    """The loop that users of torch write: a half-precision copy of the module, masters and gradients in float32."""
    _, module, data = made()
    low = Model()
    low.load_state_dict(module.module.state_dict())
    masters = {name: p.detach().clone() for name, p in low.named_parameters()}
    low.to(HALF[precision])
    losses: list[float] = []
    for tokens, labels in data:
        sums, total = {name: torch.zeros_like(x) for name, x in masters.items()}, 0.0
        for a, b in zip(tokens.chunk(MICROBATCHES), labels.chunk(MICROBATCHES), strict=True):
            x = low.table(a)
            x = x + low.down(F.gelu(low.up(low.norm(x))))
            logits = F.linear(x, low.table.weight).flatten(0, 1)
            loss = F.cross_entropy(logits.float(), b.flatten()) / MICROBATCHES
            loss.backward()
            total += float(loss.detach())
            for name, p in low.named_parameters():
                sums[name] += p.grad.float()
                p.grad = None
        losses.append(total)
        for name, p in low.named_parameters():
            masters[name] -= RATE * sums[name]
            p.data.copy_(masters[name])
    return losses, masters


WAYS = {
    "one": {"meshes": [(1, 1)]},
    "data parallel, weights cut": {"meshes": [(2, 1)], "zero": 3},
    "states cut": {"meshes": [(2, 1)], "zero": 2},
    "pipeline, a tied table": {"meshes": [(1, 1)] * 2},
}


@pytest.mark.parametrize(
    ("precision", "way"),
    [("bf16", way) for way in WAYS] + [pytest.param("fp16", "states cut", marks=pytest.mark.slow)],
)
def test_a_run_is_the_plain_loop(session: Any, precision: str, way: str) -> None:
    graph, module, data = made()
    batches = [{"tokens": a, "labels": b} for a, b in data]
    plan = hand_plan(graph, microbatches=MICROBATCHES, global_batch=8, optimizer="sgd", **WAYS[way])
    options = RunOptions(keep=True, precision=precision, learning_rate=RATE)
    own = Own(data=batches, state=module.module.state_dict())
    run = run_training(plan, graph, iterations=STEPS, own=own, options=options, session=session)
    losses, masters = plain(precision)
    assert run.losses == pytest.approx(losses, rel=ROUNDING[precision])
    state = run.state_dict()
    before = module.module.state_dict()
    for name, master in masters.items():
        assert state[name].dtype == torch.float32
        # Of what three steps changed, some roundings of gradients in half precision; a step without masters loses all.
        change = float((master - before[name]).norm())
        assert float((state[name] - master).norm()) < 8 * ROUNDING[precision] * change, name
    low = {name: x.to(HALF[precision]).float() for name, x in state.items()}
    assert any(not torch.equal(low[name], x) for name, x in state.items())  # they are more than half precision


def test_full_precision_is_another_run_and_the_comparison_stays_exact(session: Any) -> None:
    graph, module, _ = made()
    plan = hand_plan(graph, meshes=[(2, 1)], microbatches=2, global_batch=8)
    halves = [
        run_training(plan, graph, compare=True, own=Own(module=module), session=session,
                     options=RunOptions(precision=word))
        for word in ("full", "bf16")
    ]  # fmt: skip
    assert all(run.difference.largest < 1e-9 for run in halves)
    assert 0.0 < abs(halves[0].losses[0] - halves[1].losses[0]) < 2 * ROUNDING["bf16"] * halves[0].losses[0]


def test_a_graph_with_types_of_its_own_says_what_is_half_precision(session: Any) -> None:
    """Of a module in bfloat16 with one part in float32, that part's weights have no second copy and do not round."""
    torch.manual_seed(0)
    module = Model().bfloat16()
    module.norm.float()

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, tokens: Any, labels: Any) -> Any:
            m = self.inner
            x = m.table(tokens)
            x = x + m.down(F.gelu(m.up(m.norm(x.float()).bfloat16())))
            return F.cross_entropy(F.linear(x, m.table.weight).float().flatten(0, 1), labels.flatten())

    tokens = torch.zeros(2, 4, dtype=torch.int64)
    graph = from_torch(Mixed(), (tokens, tokens))
    kinds = {t.name: t.dtype for t in graph.parameters}
    assert kinds["inner.norm.weight"] == "float32"
    assert kinds["inner.up.weight"] == "bfloat16"
    # 16 bytes of each: 2 + 2 + 12 of a half-precision weight, 4 + 4 + 8 of a float32 one.
    assert state_bytes(graph) == 16 * graph.params
    plan = hand_plan(graph, meshes=[(2, 1)], microbatches=2, global_batch=8)
    run = run_training(plan, graph, session=session, options=RunOptions(precision="bf16", keep=True))
    exact = run_training(plan, graph, session=session, options=RunOptions(keep=True))
    assert run.losses[0] == pytest.approx(exact.losses[0], rel=2.0**-7)
    assert run.losses[0] != exact.losses[0]


@pytest.mark.parametrize(
    ("dtype", "word", "message"),
    [
        ("float64", "bf16", "run: precision: bf16 keeps weights in float32; expected dtype float32 (got 'float64')"),
        ("float32", "int4", "run: precision: expected full, bf16, fp16 (got 'int4')"),
    ],
)
def test_what_cannot_be_run_is_refused(session: Any, dtype: Any, word: Any, message: str) -> None:
    graph, _, _ = made()
    plan = hand_plan(graph, meshes=[(2, 1)], microbatches=2, global_batch=8)
    with pytest.raises(InputError) as error:
        run_training(plan, graph, dtype=dtype, session=session, options=RunOptions(precision=word))
    assert str(error.value) == message
