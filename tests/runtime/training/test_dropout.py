"""Dropout and drop path trained on gloo processes: every plan drops what one device drops; draws are random enough."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from meshwright.errors import InputError
from meshwright.profiles.graph import Graph, Loop, Operator, from_torch
from meshwright.profiles.graph.compute.draws import Draws, kept, normal, uniform
from meshwright.profiles.graph.compute.loops import Local
from meshwright.profiles.graph.module_loss import ModuleLoss
from meshwright.runtime.training import Own, run_training
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.runtime.training.single import single_device
from meshwright.simulator.training.plan.file import SliceEntry
from torch import nn
from torch.nn import functional as F

WITHIN = 1e-12
TOKENS = 6


class Block(nn.Module):
    """Causal attention that drops weights, an MLP that drops elements, and a residual path that drops samples."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 8)
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.25), nn.Linear(16, 8))

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        q, k, v = (f(y).unflatten(-1, (2, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True).transpose(1, 2).flatten(-2)
        x = x + F.dropout(self.out(y), 0.1)
        path = x.new_empty((x.shape[0], 1, 1)).bernoulli_(0.7)
        return x + self.mlp(x) * path.div_(0.7)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.blocks = nn.Embedding(10, 8), nn.Sequential(Block(), Block())
        self.head = nn.Linear(8, 10)

    def forward(self, ids: Any) -> Any:
        return self.head(self.blocks(self.table(ids)))


@cache
def graph() -> Graph:
    torch.manual_seed(0)
    ids = torch.zeros(2, TOKENS, dtype=torch.int64)
    return from_torch(Decoder(), (ids,), loss="cross_entropy", labels=ids, items_per_sample=TOKENS, items="tokens")


def tensors(op: Operator) -> tuple[str, str]:
    """Axis 1 cuts the last loop of the result that it may cut."""
    loops = [x for group in op.parsed.result for x in group if x in op.cuttable and not op.loop(x).batch]
    return next((x.name for x in op.loops if x.batch and x.name in op.cuttable), ""), loops[-1] if loops else ""


SLICES = [SliceEntry(samples=2, tokens=(4, 2), count=2)]
PLANS = {
    "data": {"meshes": [(2, 1)]},
    "tensors": {"meshes": [(1, 2)], "rule": tensors},
    "both": {"meshes": [(2, 2)], "rule": tensors},
    "pipeline": {"meshes": [(1, 1)] * 2, "recompute": "full"},
    "zero-bubble": {"meshes": [(1, 1)] * 2, "schedule": "zb_h1"},
    "zero": {"meshes": [(2, 1)], "zero": 3},
    "slices": {"meshes": [(1, 1)] * 2, "slices": SLICES, "schedule": "terapipe"},
}


SLOW = ("both", "zero-bubble")


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x in SLOW else x for x in PLANS])
def test_every_plan_drops_what_one_device_drops(session: Any, name: str) -> None:
    plan = hand_plan(graph(), microbatches=2, global_batch=4, **PLANS[name])  # type: ignore[arg-type]
    run = run_training(plan, graph(), iterations=2, dtype="float64", compare=True, session=session)
    assert run.difference.largest < WITHIN, run.difference
    off = replace(graph(), operators=tuple(map(undropped, graph().operators)))
    calm = single_device(off, seed=0, microbatches=2, dtype="float64")
    assert abs(calm.losses[0] - run.losses[0]) > 1e-6  # something is dropped


def undropped(op: Operator) -> Operator:
    a = op.attributes
    if a.get("fn") == "bernoulli":
        return replace(op, attributes={"fn": "full", "value": a["p"]})
    return replace(op, attributes={k: 0.0 if k in ("p", "dropout") else v for k, v in a.items()})


def test_what_is_traced_keeps_its_shares() -> None:
    found = [
        (op.kind, key, op.attributes[key])
        for op in graph().operators
        for key in ("p", "dropout")
        if key in op.attributes
    ]
    assert found[:4] == [
        ("attention", "dropout", 0.2), ("elementwise", "p", 0.1), ("elementwise", "p", 0.7), ("elementwise", "p", 0.25),
    ]  # fmt: skip


def test_a_module_that_drops_is_no_reference(session: Any) -> None:
    ids = torch.zeros(2, TOKENS, dtype=torch.int64)
    module = ModuleLoss(Decoder(), (ids,), "cross_entropy", ids)
    plan = hand_plan(graph(), meshes=[(2, 1)], microbatches=2, global_batch=4)
    with pytest.raises(InputError, match=r"'blocks\.0\.attention' draws at random, and a module draws otherwise"):
        run_training(plan, graph(), compare=True, own=Own(module=module), session=session)


# The draws.


def local(name: str = "drop", batch: int = 4, places: int = 1000, **draws: int) -> Local:
    said = {"seed": 1, "iteration": 0, "first": 0, "samples": batch} | draws
    op = Operator(
        name, "elementwise", "b s -> b s", ("x",), (Loop("b", batch, True), Loop("s", places)), "float32",
        attributes={"fn": "dropout", "p": 0.5},
    )  # fmt: skip
    return replace(Local.of(op), draws=Draws(**said))


def test_draws_need_to_know_what_they_are_for() -> None:
    with pytest.raises(InputError, match="operator 'drop' draws at random; expected a seed, an iteration and samples"):
        kept(replace(local(), draws=None), ("b", "s"), 0.5)


def test_a_draw_is_a_function_of_where_its_element_stands() -> None:
    whole = uniform(local(), ("b", "s"))
    part = replace(local(), sizes={"b": 2, "s": 300}, start={"b": 1, "s": 500})
    assert torch.equal(uniform(part, ("b", "s")), whole[1:3, 500:800])
    later = uniform(local(batch=2, first=2, samples=2), ("b", "s"))  # the same samples in smaller microbatches
    assert torch.equal(later, whole[2:])
    assert torch.equal(uniform(local(), ("s", "b")).T, whole)  # wherever the batch dimension is
    assert float(whole.min()) >= 0.0
    assert float(whole.max()) < 1.0


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
def test_the_mean_keep_rate(p: float) -> None:
    mask = kept(local(batch=100), ("b", "s"), p).double()
    n = mask.numel()
    assert abs(float(mask.mean()) - (1 - p)) < 4 * math.sqrt(p * (1 - p) / n)


def chi_square(x: torch.Tensor, y: torch.Tensor, bins: int = 8) -> float:
    """Standard normal under independence and uniformity, by Wilson and Hilferty's cube root."""
    cells = (x * bins).long() * bins + (y * bins).long()
    counts = torch.bincount(cells.flatten(), minlength=bins * bins).double()
    expected = counts.sum() / bins**2
    freedom = bins * bins - 1
    ratio = float(((counts - expected).square() / expected).sum()) / freedom
    return (ratio ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))


def test_draws_are_independent_of_those_beside_them() -> None:
    order = ("b", "s")
    x = uniform(local(batch=20), order)
    others = {
        "place": (x[:, :-1], x[:, 1:]),
        "sample": (x[:-1], x[1:]),
        "far place": (x[:, :-512], x[:, 512:]),
        "iteration": (x, uniform(local(batch=20, iteration=1), order)),
        "seed": (x, uniform(local(batch=20, seed=2), order)),
        "microbatch": (x, uniform(local(batch=20, first=20), order)),
        "operator": (x, uniform(local("drop.2", batch=20), order)),
    }
    found = {name: chi_square(*pair) for name, pair in others.items()}
    assert max(map(abs, found.values())) < 4, found


def test_normal_draws_have_the_moments_of_the_normal() -> None:
    x = normal(local(batch=100), ("b", "s"))
    n = x.numel()
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(float((x**power).mean()) - expected) < 4 * math.sqrt(variance / n)
