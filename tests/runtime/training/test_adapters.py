"""Fine-tuning by adapters: frozen weights, tied ones and several losses, planned, kept and run as the module says."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from meshwright.profiles.graph import from_torch
from meshwright.profiles.graph.memory import parameter_bytes, state_bytes
from meshwright.profiles.graph.module_loss import ModuleLoss
from meshwright.runtime.training import Own, RunOptions, run_training
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.runtime.training.optimizer import Optimizer
from meshwright.runtime.training.single import make_parameter
from meshwright.runtime.training.stage.layout import StageLayout
from meshwright.runtime.training.stage.precision import Precision
from meshwright.runtime.training.stage.runner import StageRunner
from meshwright.runtime.training.wires.comm import MeshComm
from torch import nn
from torch.nn import functional as F

EXACT = 1e-10
TOKENS = torch.zeros(2, 6, dtype=torch.int64)


class Adapted(nn.Module):
    """A frozen model with a tied table, an adapter of low rank beside its fused layer, and a second loss."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.qkv = nn.Embedding(12, 8), nn.LayerNorm(8), nn.Linear(8, 24)
        self.requires_grad_(False)
        self.a, self.b = nn.Linear(8, 2, bias=False), nn.Linear(2, 24, bias=False)

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = self.norm(self.table(tokens))
        q, k, v = (self.qkv(x) + 0.5 * self.b(self.a(x))).split(8, -1)
        y = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        loss = F.cross_entropy(F.linear(y, self.table.weight).flatten(0, 1), labels.flatten())
        return loss + 0.1 * q.square().mean()


@pytest.mark.parametrize("half", [False, True])
def test_a_run_keeps_the_bytes_that_planners_count(half: bool) -> None:
    """But for gradients, which are there only after a backward pass: frozen weights have no state and no master."""
    module = Adapted().bfloat16() if half else Adapted()
    graph = from_torch(module, (TOKENS, TOKENS))
    plan = hand_plan(graph, meshes=[(1, 1)], microbatches=1, global_batch=2)
    comm = MeshComm((0,), (1, 1), 0)
    runner = StageRunner(
        StageLayout.of(plan, graph, 0, comm), comm, inputs=lambda name, _: TOKENS,
        parameter=lambda name: make_parameter(graph, name, 0, "float32"), optimizer=Optimizer(), microbatches=1,
        loss=graph.operators[-1].name, precision=Precision.of("bf16" if half else "full", graph),
    )  # fmt: skip
    trained = {t.name for t in graph.parameters if t.trainable}
    assert runner.steps.keys() == trained
    assert {name.partition(".")[0] for name in trained} == {"a", "b"}
    held = [*runner.weights.values(), *runner.masters.values(), *(x for s in runner.steps.values() for x in s.state)]
    gradients = sum(parameter_bytes(t.dtype)[1] * t.elements for t in graph.parameters if t.trainable)
    assert sum(x.nbytes for x in held) == state_bytes(graph) - gradients


@pytest.mark.parametrize("way", [{"meshes": [(2, 1)], "zero": 3}, {"meshes": [(1, 1)] * 2}], ids=["cut", "pipeline"])
def test_only_the_adapter_moves(session: Any, way: Any) -> None:
    torch.manual_seed(0)
    module = Adapted()
    graph = from_torch(module, (TOKENS, TOKENS))
    plan = hand_plan(graph, microbatches=2, global_batch=8, **way)
    state = module.state_dict()
    own = Own(state=state, module=ModuleLoss(module, (TOKENS, TOKENS)))
    run = run_training(plan, graph, dtype="float64", compare=True, own=own, session=session)
    assert run.difference.largest < EXACT, run.difference
    after = run.state_dict()
    moved = {name for name, x in state.items() if not torch.equal(after[name], x.double())}
    assert moved == {"a.weight", "b.weight"}
    low = run_training(plan, graph, own=own, session=session, options=RunOptions(precision="bf16", keep=True))
    same = {name for name, x in state.items() if torch.equal(low.state_dict()[name], x)}
    assert same == state.keys() - moved


@pytest.mark.slow
def test_adapters_of_peft(session: Any) -> None:
    """On GPT-2's fused layer, as users add them."""
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=4, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0,
        use_cache=False,
    )  # fmt: skip
    base = transformers.GPT2LMHeadModel(config)
    adapters = peft.LoraConfig(r=2, target_modules=["c_attn"], init_lora_weights=False, fan_in_fan_out=True)
    module = peft.get_peft_model(base, adapters)
    inputs = {"input_ids": TOKENS, "labels": TOKENS}
    graph = from_torch(module, inputs)
    assert {t.part.of.rpartition("c_attn.")[2] for t in graph.parameters if t.part is not None and t.trainable} == {
        "lora_B.default.weight"
    }
    assert state_bytes(graph) == sum(t.elements * (16 if t.trainable else 4) for t in graph.parameters)
    plan = hand_plan(graph, meshes=[(2, 1)], microbatches=2, global_batch=8)
    own = Own(module=ModuleLoss(module, inputs))
    run = run_training(plan, graph, dtype="float64", compare=True, own=own, session=session)
    assert run.difference.largest < 1e-9, run.difference
