"""Attention whose queries, keys and values are one product: planned so that it is cut by heads, and run as the module.

One device of two must hold the same heads of all three, which is no range of the fused weight.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from meshwright.planners.alpa.fixed import megatron
from meshwright.planners.alpa.intra import IntraOptions, score, solve_stage
from meshwright.profiles.graph import Graph, from_json, from_torch, roofline
from meshwright.profiles.graph.fused.values import apart, parts_of, together
from meshwright.profiles.graph.module_loss import ModuleLoss
from meshwright.runtime.training import Own, RunOptions, run_training
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.runtime.training.own.optimizer import Group, TorchOptimizer
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import Mesh
from torch import nn
from torch.nn import functional as F

EXACT = 1e-10
HEADS, GROUPS, SIZE, WIDTH = 4, 2, 8, 24
LAYOUTS = ("three by heads", "in a row", "heads by three", "unequal")


class Block(nn.Module):
    """One layer of attention and a gated MLP, with everything fused that is fused in practice."""

    def __init__(self, layout: str) -> None:
        super().__init__()
        self.layout = layout
        wide = (HEADS + 2 * GROUPS) * SIZE if layout == "unequal" else 3 * HEADS * SIZE
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, wide), nn.Linear(HEADS * SIZE, WIDTH)
        self.gate_up, self.down = nn.Linear(WIDTH, 64, bias=False), nn.Linear(32, WIDTH)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        y = self.qkv(self.norm(x))
        shape = (batch, length, HEADS, SIZE)
        if self.layout == "three by heads":  # timm's and Hugging Face's vision transformers
            q, k, v = y.reshape(batch, length, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4).unbind(0)
        elif self.layout == "in a row":  # GPT-2
            q, k, v = (part.view(shape).transpose(1, 2) for part in y.split(HEADS * SIZE, dim=2))
        elif self.layout == "heads by three":  # GPT-NeoX
            q, k, v = y.view(batch, length, HEADS, 3 * SIZE).transpose(1, 2).chunk(3, dim=-1)
        else:  # Phi-3: fewer heads of keys and values
            ends = HEADS * SIZE, (HEADS + GROUPS) * SIZE
            few = (batch, length, GROUPS, SIZE)
            q = y[..., : ends[0]].view(shape).transpose(1, 2)
            k, v = y[..., ends[0] : ends[1]].view(few).transpose(1, 2), y[..., ends[1] :].view(few).transpose(1, 2)
            k, v = (part.repeat_interleave(HEADS // GROUPS, 1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(y.reshape(batch, length, HEADS * SIZE))
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return (x + self.down(F.silu(gate) * up)).square().mean()


@cache
def traced(layout: str) -> tuple[Graph, ModuleLoss]:
    torch.manual_seed(0)
    module = Block(layout)
    return from_torch(module, (torch.zeros(2, 6, WIDTH),)), ModuleLoss(module, (torch.zeros(2, 6, WIDTH),))


def test_every_layout_is_held_in_parts_that_are_cut_by_heads() -> None:
    for layout in LAYOUTS:
        graph, _ = traced(layout)
        mine = [t for t in graph.parameters if t.name.startswith("qkv.weight")]
        heads = {"unequal": [HEADS, GROUPS, GROUPS], "heads by three": [3 * HEADS]}.get(layout, [HEADS] * 3)
        assert [t.shape for t in mine] == [(n * SIZE, WIDTH) for n in heads]
        assert from_json(graph.to_json()) == graph


@pytest.mark.parametrize("layout", [pytest.param(x, marks=pytest.mark.slow) if "row" in x else x for x in LAYOUTS])
def test_a_plan_of_two_devices_cuts_by_heads_and_runs_as_the_module(session: Any, layout: str) -> None:
    graph, module = traced(layout)
    cluster = Cluster(nodes=1, devices_per_node=2, device="v100-16gb")
    stage = graph, 0, len(graph.operators), Mesh(cluster, 1, 2).view((1, 2)), roofline(cluster.spec)
    free = solve_stage(*stage, IntraOptions(microbatches=2, data_parallel=False))
    by_hand = score(*stage, megatron(graph, (1, 2)), IntraOptions(microbatches=2))
    # Two products by rows need a sum forward, two values that products by columns read need one backward.
    assert {key: n for key, n in by_hand.counts.items() if "gather" in key or "to_all" in key} == {}
    assert by_hand.counts["forward.all_reduce"] == 2
    assert by_hand.counts["backward.all_reduce"] == 2
    for found in (free, by_hand):
        plan = hand_plan(graph, meshes=[(1, 2)], global_batch=4, microbatches=2, cluster=cluster)
        entry = plan.stages[0].model_copy(
            update={"operators": dict(found.operators), "parameters": dict(found.parameters),
                    "optimizer_states": dict(found.optimizer_states), "collectives": found.counts}
        )  # fmt: skip
        plan = plan.model_copy(update={"stages": (entry,)})
        run = run_training(plan, graph, dtype="float64", compare=True, own=Own(module=module), session=session)
        assert run.difference.largest < EXACT, run.difference
        state = run.state_dict()
        assert {key: x.shape for key, x in state.items()} == {k: x.shape for k, x in module.module.state_dict().items()}
    cut = [name for name, spec in by_hand.parameters.items() if name.startswith("qkv.") and "S1" in spec]
    assert len(cut) == len([t for t in graph.parameters if t.name.startswith("qkv.")])


def test_a_users_weights_and_optimizer_know_the_module_alone(session: Any) -> None:
    """State enters and leaves fused; ZeRO's shards are of parts; a pattern of names has the parts of what it names."""
    graph, module = traced("unequal")
    state = module.module.state_dict()
    parts = parts_of(graph.parameters)
    assert parts.keys() == {"qkv.weight", "qkv.bias", "gate_up.weight"}
    back = together(apart(state, graph.parameters), graph.parameters)
    assert all(torch.equal(back[key], x) for key, x in state.items())
    assert back.keys() == state.keys()
    optimizer = TorchOptimizer("AdamW", {"lr": 0.1, "weight_decay": 0.5}, (Group(("*.bias",), {"lr": 0.0}),))
    plan = hand_plan(graph, meshes=[(2, 1)], global_batch=4, microbatches=2, zero=3)
    own = Own(state=state, optimizer=optimizer, module=module)
    run = run_training(
        plan, graph, dtype="float64", compare=True, own=own, options=RunOptions(keep=True), session=session
    )
    assert run.difference.largest < EXACT, run.difference
    after = run.state_dict()
    assert torch.equal(after["qkv.bias"], state["qkv.bias"].double())
    assert not torch.allclose(after["qkv.weight"], state["qkv.weight"].double(), atol=1e-3)


class Kept(nn.Module):
    """What looks fused and is not taken apart: some reader needs all of it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.line = how, nn.Linear(4, 6)

    def forward(self, x: Any) -> Any:
        y = self.line(x)
        one, two = y[..., :3], y[..., 3:]
        if self.how == "softmax":
            one, two = y.softmax(-1).chunk(2, -1)
        if self.how == "gap":
            two = y[..., 4:5]
        if self.how == "overlap":
            two = y[..., 2:5]
        both = (one * two).square().mean()
        return both + y.mean() if self.how == "read" else both + F.linear(x, self.line.weight).square().mean()


@pytest.mark.parametrize("how", ["softmax", "gap", "overlap", "read", "tied"])
def test_what_is_read_otherwise_stays_whole(how: str) -> None:
    graph = from_torch(Kept(how), (torch.zeros(2, 4),))
    assert parts_of(graph.parameters) == {}


def test_an_adapter_beside_a_fused_layer_is_taken_apart_with_it() -> None:
    """LoRA adds a product of its own: its second matrix has the fused dimension too."""

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base, self.a, self.b = nn.Linear(8, 24), nn.Linear(8, 2, bias=False), nn.Linear(2, 24, bias=False)
            self.base.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            q, k, v = (self.base(x) + 0.5 * self.b(self.a(x))).split(8, -1)
            return (q * k * v).square().mean()

    graph = from_torch(Adapted(), (torch.zeros(2, 8),))
    assert parts_of(graph.parameters).keys() == {"base.weight", "base.bias", "b.weight"}
    assert [t.trainable for t in graph.parameters if t.name.startswith("base")] == [False] * 6
