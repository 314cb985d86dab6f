"""Layers that predict further tokens: their weights, their keys and values, and their time as drafts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import Iteration, Overheads, decoder, draft_cost, iteration_cost, kv_capacity
from meshwright.simulator.llm import LLMTrace, SimulateOptions, Speculative, simulate_llm

V3 = decoder("DeepSeek-V3")
GIB = 2**30


def test_the_published_weights_of_the_module() -> None:
    """11.5 billion of its own, 0.9 each of the embedding and the head that it shares (DeepSeek-V3's README_WEIGHTS)."""
    own = V3.draft
    assert V3.mtp_layers == 1
    assert V3.weights == pytest.approx(671e9, rel=0.001)
    assert own.layer_weights + own.joining_weights == pytest.approx(11.5e9, rel=0.01)
    assert own.weights - own.layer_weights - own.joining_weights == 2 * 129280 * 7168


def test_a_config_says_how_many() -> None:
    base = {
        "model_type": "glm4_moe", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "head_dim": 8,
        "num_key_value_heads": 2, "vocab_size": 100, "intermediate_size": 96, "max_position_embeddings": 512,
        "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
        "first_k_dense_replace": 1,
    }  # fmt: skip
    read = type(V3).from_config
    assert read(base).mtp_layers == 0
    found = read(base | {"num_nextn_predict_layers": 1})
    assert (found.mtp_layers, found.draft.layers, found.draft.moe_layers) == (1, 1, 1)
    assert found.weights == read(base).weights
    for wrong in (-1, "one", 1.0, True):
        with pytest.raises(InputError, match="num_nextn_predict_layers: expected an integer >= 0") as caught:
            read(base | {"num_nextn_predict_layers": wrong})
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no layer that predicts further tokens"):
        _ = read(base).draft


def test_memory_counts_it_where_it_is_loaded() -> None:
    """A rank of eight holds an eighth of the layer, all of the joining projection, and keys and values of 62 layers."""
    memory = device("h200").memory_bytes
    without, loaded = (
        kv_capacity(V3, memory, tp=8, ep=8, weights="fp8", kv="bfloat16", mtp=mtp) for mtp in (False, True)
    )
    own = V3.draft
    latents = 7168 * (1536 + 512 + 64)
    share = (own.layer_weights - latents) / 8 + latents
    assert loaded.weight_bytes - without.weight_bytes == pytest.approx(share + 2 * 7168**2, rel=1e-4)
    assert loaded.block_bytes / without.block_bytes == pytest.approx(62 / 61)
    with pytest.raises(InputError, match=r"Llama-3\.1-8B: its checkpoint has no layer"):
        kv_capacity(decoder("Llama-3.1-8B"), 80 * GIB, mtp=True)


def test_a_draft_takes_one_layer_and_the_head() -> None:
    gpu, quiet = device("h200"), Overheads(0.0, 0.0)
    step = Iteration((), 32, 32 * 2000, 32)
    whole = iteration_cost(V3, gpu, tp=8, ep=8, precision="fp8_block", overheads=quiet)
    draft = draft_cost(V3, gpu, tp=8, ep=8, precision="fp8_block")
    parts = {p.name: p.seconds for p in draft.explain(step)}
    model = {p.name: p.seconds for p in whole.explain(step)}
    assert parts["output head"] == model["output head"]
    assert parts["experts"] == pytest.approx(model["experts"] / 58)
    assert parts["attention of decodes"] == pytest.approx(model["attention of decodes"] / 61)
    read = 2 * 2 * 7168**2 / gpu.memory_bandwidth_bytes_per_s  # 16 bits, 2 h x h
    assert read < parts["joining projection"] < 2 * read + 5e-6
    assert draft.seconds(step) < whole.seconds(step) / 20


def test_speculation_with_it_pays_where_drafts_are_accepted() -> None:
    """One draft a step, accepted in 85 of 100 cases (the paper says 85 to 90): 1.85 tokens for a step and a bit."""
    gpu = device("h200")
    cost = iteration_cost(V3, gpu, tp=8, ep=8, precision="fp8_block")
    draft = draft_cost(V3, gpu, tp=8, ep=8, precision="fp8_block")
    trace = LLMTrace([0.0] * 4, [512] * 4, [128] * 4)
    config = {"num_blocks": 4000, "async_scheduling": False, "max_model_len": 4096}
    plain = simulate_llm(trace, config=config, cost=cost)
    spec = SimulateOptions(speculative=Speculative(1, 0.85, draft=draft))
    found = simulate_llm(trace, config=config, cost=cost, options=spec)
    times = float((plain.finish - plain.first_token).mean() / (found.finish - found.first_token).mean())
    assert 1.3 < times < 1.85


def test_a_model_without_experts_has_a_draft_of_its_kind(tmp_path: Path) -> None:
    mimo = {
        "model_type": "qwen2", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32, "head_dim": 128,
        "num_key_value_heads": 8, "vocab_size": 151680, "intermediate_size": 11008, "max_position_embeddings": 32768,
        "num_nextn_predict_layers": 1,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(mimo))
    model = decoder(str(tmp_path / "config.json"))
    assert model.draft.layer_weights == model.layer_weights
    assert replace(model.draft, joins=False).weights == model.weights - 35 * model.layer_weights
