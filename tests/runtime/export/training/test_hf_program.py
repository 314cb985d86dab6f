"""Exported programs of transformers' models: torchrun starts them without Meshwright; they train as the model does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
import torch
import transformers
from alone import alone
from meshwright.planners.alpa import plan as alpa
from meshwright.profiles.graph import from_torch
from meshwright.profiles.graph.module_loss import ModuleLoss, in_float64
from meshwright.runtime.export.training import export_training
from meshwright.runtime.training import Own, run_training
from meshwright.runtime.training.own.weights import load_weights, save_weights
from meshwright.runtime.training.own.words import optimizer_of
from meshwright.simulator.cluster import Cluster

ITERATIONS = 3
OPTIMIZER = "adamw:lr=1e-2"
SIZES: dict[str, Any] = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
    "max_position_embeddings": 16, "pad_token_id": 0, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
DATA = """
import torch

def batches():
    draw = torch.Generator().manual_seed(1)
    while True:
        tokens = torch.randint(3, 32, (8, 6), generator=draw)
        yield {"input_ids": tokens, "labels": tokens}
"""


def batches() -> Iterator[dict[str, torch.Tensor]]:
    names: dict[str, Any] = {}
    exec(DATA, names)
    return names["batches"]()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "stages"), [("LlamaForCausalLM", "one_device"), ("BertForMaskedLM", "one")])
def test_two_processes_of_the_program_train_the_model(kind: str, stages: str, tmp_path: Path) -> None:
    """Two stages, or one whose operators are cut: the program, a run here, and the model's own loop are one."""
    configuration = getattr(transformers, kind).config_class(**SIZES, use_cache=False)
    torch.manual_seed(0)
    module = getattr(transformers, kind)(configuration).train()
    inputs = next(batches())
    whole = ModuleLoss(module, {name: x[:2] for name, x in inputs.items()})
    graph = from_torch(module, {name: x[:2] for name, x in inputs.items()})
    module.double()
    cluster = Cluster(nodes=1, devices_per_node=2, device="cpu-core")
    plan = alpa(graph, cluster, global_batch=8, microbatches=2, options={"n_layers": 2, "stages": stages})
    assert sum(mesh.devices for mesh in plan.meshes) == 2
    program = tmp_path / "program"
    export_training(plan, "torch", program, graph=graph, module=whole)
    save_weights(tmp_path / "in.safetensors", module.state_dict())
    (tmp_path / "data.py").write_text(DATA)
    said = alone(
        program, tmp_path,
        ["--data", "data.py:batches", "--weights", "in.safetensors", "--save", "out.safetensors", "--optimizer",
         OPTIMIZER, "--iterations", str(ITERATIONS), "--dtype", "float64"],
    )  # fmt: skip
    own = Own(batches(), module.state_dict(), optimizer_of(OPTIMIZER, None, [], None), whole)
    run = run_training(plan, graph, iterations=ITERATIONS, dtype="float64", own=own)
    theirs, losses = torch.optim.AdamW(module.parameters(), lr=1e-2), list[float]()
    for _, batch in zip(range(ITERATIONS), batches(), strict=False):
        theirs.zero_grad()
        with in_float64():  # the model has norms and its loss in float32, whatever it is given
            loss = module(**batch).loss
            loss.backward()
        theirs.step()
        losses.append(float(loss.detach()))
    assert run.losses == pytest.approx(losses, rel=1e-9)
    assert [float(x) for x in re.findall(r"loss (\S+),", said)] == pytest.approx(losses, rel=1e-8)
    exported = load_weights(tmp_path / "out.safetensors")
    for name, x in module.named_parameters():
        for state in (exported, run.state_dict()):
            assert float((state[name] - x).abs().max()) < 1e-9, name
