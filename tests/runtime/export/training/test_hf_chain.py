"""Models of transformers, from a file to processes: traced, planned, simulated, exported, started and run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("transformers")
from forked import ranks
from meshwright.planners.alpa import plan as alpa
from meshwright.profiles.graph.named import graph_of, module_of
from meshwright.runtime.export.training import export_training
from meshwright.runtime.training import Own, TrainingSession, run_training
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.training import simulate_training

FILE = """
import torch
from transformers import {stem}{head}, {stem}Config

def build():
    torch.manual_seed(0)
    config = {stem}Config({more})
    config.use_cache = False
    return {{"module": {stem}{head}(config).train(), "inputs": {inputs}}}
"""
TOKENS = '{"input_ids": torch.full((2, 6), 3), "labels": torch.full((2, 6), 3)}'
PLAIN = "hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0"
SIZES = ("vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, pad_token_id=0, "
         "num_attention_heads=4, max_position_embeddings=16, ")  # fmt: skip
MODELS = {
    "mixtral": ("Mixtral", "ForCausalLM", f"{SIZES}num_key_value_heads=2, num_local_experts=4", TOKENS),
    "electra": ("Electra", "ForMaskedLM", f"{SIZES}embedding_size=8, {PLAIN}", TOKENS),
}  # fmt: skip
"""A decoder with experts, and an encoder."""
SLOW = ("mixtral",)


@pytest.fixture(scope="module")
def session():
    with TrainingSession(2, timeout_s=120.0) as started:
        yield started


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x in SLOW else x for x in MODELS])
def test_from_a_file_to_two_processes(session: TrainingSession, name: str, tmp_path: Path) -> None:
    stem, head, more, inputs = MODELS[name]
    (tmp_path / "mine.py").write_text(FILE.format(stem=stem, head=head, more=more, inputs=inputs))
    word = f"{tmp_path / 'mine.py'}:build"
    graph, module = graph_of(word), module_of(word)
    plan = alpa(graph, Cluster(1, 2, "cpu-core"), global_batch=4, microbatches=2)
    assert sum(mesh.hosts * mesh.devices for mesh in plan.meshes) == 2
    assert simulate_training(plan).seconds > 0
    export_training(plan, "torch", tmp_path / "program", graph=graph, module=module)
    said = ranks(tmp_path / "program/train.py", 2, ["--iterations", "1"])
    run = run_training(plan, graph, compare=True, own=Own(module=module), session=session)
    assert run.difference is not None
    assert run.difference.largest < 1e-9, run.difference
    (loss,) = re.findall(r"loss (\S+),", said)
    assert float(loss) == pytest.approx(run.losses[0], rel=1e-5)
