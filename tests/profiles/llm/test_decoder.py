"""Shapes of decoder models and their KV memory, against published figures."""

from __future__ import annotations

import json

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.profiles.llm import DECODERS, DecoderSpec, decoder, kv_capacity

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("Llama-3.1-8B", 8.03), ("Llama-3.1-70B", 70.6), ("Llama-3.1-405B", 405.9), ("Llama-2-7b", 6.74),
        ("Mistral-7B-v0.1", 7.24), ("Qwen2.5-7B", 7.62), ("Qwen2.5-72B", 72.7), ("Qwen3-8B", 8.19), ("Qwen3-32B", 32.8),
        ("Llama-3.2-1B", 1.24), ("opt-13b", 12.85), ("opt-66b", 65.7), ("opt-175b", 174.6),
    ],
)  # fmt: skip
def test_shapes_give_the_published_number_of_weights(name, billions):
    assert decoder(name).weights / 1e9 == pytest.approx(billions, rel=0.005)


def test_kv_of_one_token_and_the_slots_of_table_5_1():
    """vLLM §5.3 and Table 5.1: 800 KB a token; 15.7K slots in 12 GiB for 13B, 60.1K in 264 GiB for 175B."""
    assert decoder("opt-13b").kv_bytes_per_token() == 819_200
    assert 12 * 2**30 // decoder("opt-13b").kv_bytes_per_token() == 15_728
    assert 264 * 2**30 // decoder("opt-175b").kv_bytes_per_token() == 60_074


def test_config_json_gives_the_shipped_shape(tmp_path):
    spec = DecoderSpec.from_config(LLAMA, "Llama-3.1-8B")
    shipped = DECODERS["Llama-3.1-8B"]
    for field in (
        "layers",
        "hidden",
        "heads",
        "kv_heads",
        "head_dim",
        "ffn",
        "vocab",
        "max_positions",
        "gated",
        "tied",
    ):
        assert getattr(spec, field) == getattr(shipped, field), field
    path = tmp_path / "mine" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(LLAMA))
    assert decoder(str(path)).name == "mine"
    assert decoder(str(path)).weights == shipped.weights


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"num_hidden_layers": None, "vocab_size": None}, "num_hidden_layers, vocab_size"),
        ({"num_key_value_heads": 5}, "kv_heads 5 does not divide"),
        ({"hidden_size": 4097}, "no multiple of the 32 heads"),
        ({"num_hidden_layers": 0}, "layers: expected an integer >= 1"),
    ],
)
def test_bad_config_json(changed, says):
    with pytest.raises(InputError, match=says):
        DecoderSpec.from_config(LLAMA | changed)


def test_unknown_model_names_the_nearest():
    with pytest.raises(InputError, match=r"did you mean 'Llama-3\.1-8B'"):
        decoder("meta-llama/Llama-3.1-8")


def test_blocks_are_what_weights_leave():
    found = kv_capacity(decoder("Llama-3.1-8B"), 80 * 2**30, utilization=0.9)
    by_hand = (72 * 2**30 - decoder("Llama-3.1-8B").weight_bytes()) // (2 * 32 * 16 * 8 * 128 * 2)
    assert found.num_blocks == by_hand
    assert "blocks of 16" in found.explain()
    split = kv_capacity(decoder("Llama-3.1-70B"), 80 * 2**30, tp=4)
    assert split.block_bytes == 2 * 80 * 16 * 2 * 128 * 2
    repeated = kv_capacity(decoder("Llama-3.1-70B"), 80 * 2**30, tp=16)
    assert repeated.block_bytes == 2 * 80 * 16 * 1 * 128 * 2


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"tp": 3}, InputError, "does not divide the 64 heads"),
        ({"tp": 1}, InfeasibleError, "leave no room"),
        ({"tp": 8, "utilization": 1.2}, InputError, "utilization"),
        ({"tp": 8, "block_size": 0}, InputError, "block_size"),
        ({"tp": 8, "kv": "fp9"}, InputError, "did you mean 'fp8'"),
        ({"pp": 81}, InputError, "more than the 80 layers"),
    ],
)
def test_bad_capacity(options, error, says):
    with pytest.raises(error, match=says):
        kv_capacity(decoder("Llama-3.1-70B"), 80 * 2**30, **options)
