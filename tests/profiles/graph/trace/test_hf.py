"""Models of transformers as they are: traced, held against their own autograd, and what of them is refused."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
import torch
from hf_models import MODELS, MORE, made
from meshwright.errors import InputError
from meshwright.planners.alpa import plan as alpa
from meshwright.profiles.graph import Graph, from_torch
from meshwright.profiles.graph.compute import evaluate
from meshwright.profiles.graph.fused.values import apart as in_parts
from meshwright.profiles.graph.fused.values import together
from meshwright.profiles.graph.hf import located, with_sequence
from meshwright.profiles.graph.module_loss import ModuleLoss, in_float64
from meshwright.profiles.graph.named import graph_of
from meshwright.runtime.training import Own, TrainingSession, run_training
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.training import simulate_training

WITHIN = 1e-10


def apart(graph: Graph, module: Any, inputs: dict[str, torch.Tensor]) -> float:
    """Largest difference of loss and gradients, in float64, as a part of the largest element."""
    values = {name: x.detach() for name, x in (*module.named_parameters(), *module.named_buffers())}
    wanted = [name for name, p in module.named_parameters() if p.requires_grad]
    reference = ModuleLoss(module, inputs)
    loss, gradients = reference.gradients(values, inputs, wanted)
    known, names = {**values, **inputs}, [t.name for t in (*graph.parameters, *graph.inputs)]
    known = in_parts(known, graph.parameters)
    if not known.keys() >= set(names):
        known |= reference.lifted(names)
    read = {name: known[name] for name in names}
    read = {name: x.double() if x.is_floating_point() else x for name, x in read.items()}
    trained = [t.name for t in graph.parameters if t.trainable]
    leaves = {name: read[name].clone().requires_grad_() for name in trained}
    with in_float64():
        ours = evaluate(graph.operators, {**read, **leaves})[graph.operators[-1].name].reshape(())
        found = torch.autograd.grad(ours, list(leaves.values()), allow_unused=True)
    got = together({n: g for n, g in zip(leaves, found, strict=True) if g is not None}, graph.parameters)
    largest = max(float(g.abs().max()) for g in gradients.values())
    worst = abs(float(ours) - float(loss)) / abs(float(loss))
    assert largest > 0
    for name, expected in gradients.items():
        mine = got.get(name)
        scale = max(float(expected.abs().max()), 1e-6 * largest)
        worst = max(worst, float((expected - (0.0 if mine is None else mine)).abs().max()) / scale)
    return worst


@cache
def traced(name: str) -> tuple[Graph, Any, dict[str, torch.Tensor]]:
    module, inputs = made(name)
    return from_torch(module, inputs), module, inputs


@pytest.mark.parametrize("name", [*MODELS, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_a_model_is_its_own_autograd_to_rounding(name: str) -> None:
    graph, module, inputs = traced(name)
    assert apart(graph, module, inputs) < WITHIN
    assert graph.with_batch(8).batch == 8
    assert not any(op.attributes.get("whole") for op in graph.operators if op.heavy)


def test_masks_that_the_model_makes_are_seen_through() -> None:
    """The causal one is no operand, the sliding one is, one that hides nothing is none; experts copy no weights."""
    for name, expected in (("llama", (True, 3)), ("mistral-window", (False, 4)), ("bert", (False, 3))):
        operators = traced(name)[0].operators
        read = [(op.attributes["causal"], len(op.inputs)) for op in operators if op.kind == "attention"]
        assert read == [expected]
    experts = [op for op in traced("mixtral")[0].operators if op.kind == "grouped"]
    assert len(experts) == 2
    assert all(op.heavy for op in experts)
    tokens, chosen = 12, 2  # 2 samples of 6
    assert sum(op.flops for op in experts) == 2 * tokens * chosen * (16 * 64 + 32 * 16)


def test_a_mask_of_the_user_is_an_input() -> None:
    module, inputs = made("llama")
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, 4:] = 0
    graph = from_torch(module, inputs | {"attention_mask": mask})
    assert "attention_mask" in {t.name for t in graph.inputs}
    assert apart(graph, module, inputs | {"attention_mask": mask}) < WITHIN


def test_a_setting_among_the_inputs_is_a_part_of_the_module() -> None:
    class Scaled(torch.nn.Linear):
        def forward(self, x: torch.Tensor, twice: bool = False, by: float = 1.0) -> dict[str, torch.Tensor]:
            y = super().forward(x)
            return {"y": y, "loss": by * (2 * y if twice else y).square().mean()}

    module, x = Scaled(3, 2), torch.randn(4, 3)
    graph = from_torch(module, {"x": x, "twice": True, "by": 0.5})
    assert [t.name for t in graph.inputs] == ["x"]
    read = {"x": x, **dict(module.named_parameters())}
    made_of = evaluate(graph.operators, read)[graph.operators[-1].name]
    assert torch.allclose(
        made_of, 0.5 * (2 * torch.nn.functional.linear(x, module.weight, module.bias)).square().mean()
    )


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


@pytest.mark.parametrize(("name", "stages"), [("llama", "one_device"), ("bert", "one"), ("mixtral", "one")])
def test_two_processes_compute_what_the_model_does(session: TrainingSession, name: str, stages: str) -> None:
    """As they are planned: two stages, or one whose operators are cut."""
    graph, module, inputs = traced(name)
    cluster = Cluster(nodes=1, devices_per_node=2, device="cpu-core")
    plan = alpa(graph, cluster, global_batch=4, microbatches=2, options={"n_layers": 2, "stages": stages})
    assert simulate_training(plan).seconds > 0
    run = run_training(plan, graph, compare=True, own=Own(module=ModuleLoss(module, inputs)), session=session)
    assert run.difference is not None
    assert run.difference.largest < 1e-9, run.difference


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
    assert (graph.name, graph.items, graph.items_per_sample) == ("llama", "tokens", 8)
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


def test_without_transformers_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"transformers is not installed; pip install -e '\.\[hf\]'"):
        graph_of(written(tmp_path, LLAMA))
