"""Models of transformers as they are: traced, held against their own autograd, and what of them is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
import torch
from hf_models import MODELS, MORE, made
from meshwright.errors import InputError
from meshwright.profiles.graph import Graph, from_torch
from meshwright.profiles.graph.compute import evaluate
from meshwright.profiles.graph.hf import located, with_sequence
from meshwright.profiles.graph.module_loss import ModuleLoss, in_float64
from meshwright.profiles.graph.named import graph_of
from meshwright.runtime.training import Own, TrainingSession, run_training
from meshwright.runtime.training.hand_plan import hand_plan
from meshwright.simulator.training import simulate_training

WITHIN = 1e-10


def apart(graph: Graph, module: Any, inputs: dict[str, torch.Tensor]) -> float:
    """Largest difference of loss and gradients, in float64, as a part of the largest element."""
    values = {name: x.detach() for name, x in (*module.named_parameters(), *module.named_buffers())}
    wanted = [name for name, p in module.named_parameters() if p.requires_grad]
    reference = ModuleLoss(module, inputs)
    loss, gradients = reference.gradients(values, inputs, wanted)
    known = {**reference.lifted(), **values, **inputs}
    read = {t.name: known[t.name] for t in (*graph.parameters, *graph.inputs)}
    read = {name: x.double() if x.is_floating_point() else x for name, x in read.items()}
    leaves = {name: read[name].clone().requires_grad_() for name in wanted if name in read}
    with in_float64():
        ours = evaluate(graph.operators, {**read, **leaves})[graph.operators[-1].name].reshape(())
        found = torch.autograd.grad(ours, list(leaves.values()), allow_unused=True)
    got = dict(zip(leaves, found, strict=True))
    largest = max(float(g.abs().max()) for g in gradients.values())
    worst = abs(float(ours) - float(loss)) / abs(float(loss))
    assert largest > 0
    for name, expected in gradients.items():
        mine = got.get(name)
        scale = max(float(expected.abs().max()), 1e-6 * largest)
        worst = max(worst, float((expected - (0.0 if mine is None else mine)).abs().max()) / scale)
    return worst


@pytest.mark.parametrize("name", [*MODELS, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_a_model_is_its_own_autograd_to_rounding(name: str) -> None:
    module, inputs = made(name)
    graph = from_torch(module, inputs)
    assert apart(graph, module, inputs) < WITHIN
    assert graph.with_batch(8).batch == 8
    assert not any(op.attributes.get("whole") for op in graph.operators if op.heavy)


def test_masks_that_the_model_makes_are_seen_through() -> None:
    """The causal one is no operand, the sliding one is; experts copy no weights."""
    graph = from_torch(*made("gemma2"))
    attentions = [op for op in graph.operators if op.kind == "attention"]
    assert [(op.attributes["causal"], len(op.inputs)) for op in attentions] in ([(False, 4), (True, 3)], [])
    experts = [op for op in from_torch(*made("mixtral")).operators if op.kind == "grouped"]
    assert [op.parsed.operands[2] for op in experts] and all(op.heavy for op in experts)
    tokens, chosen = 12, 2  # 2 samples of 6
    assert sum(op.flops for op in experts) == 2 * tokens * chosen * (16 * 64 + 32 * 16)


def test_a_mask_of_the_user_is_an_input() -> None:
    module, inputs = made("llama")
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, 4:] = 0
    graph = from_torch(module, inputs | {"attention_mask": mask})
    assert "attention_mask" in {t.name for t in graph.inputs}
    assert apart(graph, module, inputs | {"attention_mask": mask}) < WITHIN


def test_frozen_parameters_and_low_rank_adapters() -> None:
    """As LoRA does it: the model's own weights are frozen, and every projection has two small ones beside it."""

    class Adapted(torch.nn.Module):
        def __init__(self, linear: torch.nn.Linear) -> None:
            super().__init__()
            self.linear = linear.requires_grad_(False)
            self.a = torch.nn.Linear(linear.in_features, 2, bias=False)
            self.b = torch.nn.Linear(2, linear.out_features, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) + 4.0 * self.b(self.a(x))

    module, inputs = made("llama")
    module.requires_grad_(False)
    attention = module.model.layers[0].self_attn
    attention.q_proj, attention.v_proj = Adapted(attention.q_proj), Adapted(attention.v_proj)
    graph = from_torch(module, inputs)
    trained = {t.name for t in graph.parameters if t.trainable}
    assert trained == {f"model.layers.0.self_attn.{p}_proj.{x}.weight" for p in "qv" for x in "ab"}
    assert apart(graph, module, inputs) < WITHIN


@pytest.fixture(scope="module")
def session():
    with TrainingSession(2, timeout_s=300.0) as started:
        yield started


@pytest.mark.parametrize("name", ["llama", "bert", "mixtral"])
@pytest.mark.parametrize("meshes", [[(2, 1)], [(1, 1)] * 2], ids=["data", "pipeline"])
def test_two_processes_compute_what_the_model_does(session: TrainingSession, name: str, meshes: Any) -> None:
    module, inputs = made(name)
    graph = from_torch(module, inputs)
    plan = hand_plan(graph, meshes=meshes, global_batch=4, microbatches=2)
    assert simulate_training(plan).iteration_s > 0
    run = run_training(plan, graph, compare=True, own=Own(module=ModuleLoss(module, inputs)), session=session)
    assert run.difference is not None and run.difference.largest < 1e-9, run.difference


LLAMA: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32, "hidden_size": 16,
    "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 24,
}  # fmt: skip


def written(folder: Path, document: object) -> str:
    (folder / "config.json").write_text(json.dumps(document))
    return f"hf:{folder}"


def test_a_configuration_is_a_model(tmp_path: Path) -> None:
    word = written(tmp_path, LLAMA)
    graph = graph_of(with_sequence(word, 8))
    assert graph.name == "llama" and graph.items == "tokens" and graph.items_per_sample == 8
    assert {t.name: t.shape for t in graph.inputs} == {"input_ids": (2, 8), "labels": (2, 8)}
    assert located("hf:config.json@8", tmp_path) == f"hf:{tmp_path / 'config.json'}@8"
    assert located("hf:elsewhere.json", tmp_path) == "hf:elsewhere.json"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([1], "no configuration of Hugging Face; expected an object with model_type"),
        ({"model_type": "lama"}, r"model_type 'lama' is not known to transformers .*; did you mean "),
        (LLAMA | {"architectures": ["LlamaForDreams"]}, "has no 'LlamaForDreams'"),
        (LLAMA | {"architectures": ["LlamaModel"]}, "of LlamaModel no labels are known; expected a class that ends"),
        (LLAMA | {"num_attention_heads": 3}, r"config\.json: "),
    ],
)  # fmt: skip
def test_what_is_no_configuration(tmp_path: Path, document: object, says: str) -> None:
    with pytest.raises(InputError, match=f"^model: .*{says}") as caught:
        graph_of(written(tmp_path, document))
    assert "\n" not in str(caught.value)


def test_words_that_name_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model: hf:a@b: expected hf:CONFIG\.json"):
        graph_of("hf:a@b")
    with pytest.raises(InputError, match=r"nowhere: No such file or directory; expected hf:CONFIG\.json"):
        graph_of(f"hf:{tmp_path / 'nowhere'}")
