"""Public models' config.json: weights as published, KV bytes and groups of layers by vLLM's own formulas.

`page` is vLLM's ``AttentionSpec.real_page_size_bytes`` (2 x block x KV heads x head size x bytes; of latent attention
block x latent x bytes), `groups` its ``_get_kv_cache_groups_uniform_page_size`` written out for two kinds of layers.
"""

from __future__ import annotations

from dataclasses import fields

import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import DecoderSpec, decoder, kv_capacity

from .test_checkpoint import GEMMA2, GEMMA3, LLAMA, OSS, SIZES, config

SHAPES = {name: said for name, said, *_ in SIZES}


def deepseek(kind, layers, hidden, heads, ffn, vocab, experts, shared, each, wide, dense, q_rank):
    return config(
        kind, layers, hidden, heads, heads, ffn, vocab, 163840, kv_lora_rank=512, q_lora_rank=q_rank,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=experts, n_shared_experts=shared,
        num_experts_per_tok=each, moe_intermediate_size=wide, first_k_dense_replace=dense, moe_layer_freq=1,
        tie_word_embeddings=False, **({"num_nextn_predict_layers": 1} if kind == "deepseek_v3" else {}),
    )  # fmt: skip


V3 = deepseek("deepseek_v3", 61, 7168, 128, 18432, 129280, 256, 1, 8, 2048, 3, 1536)
MISTRAL = config("mistral", 32, 4096, 32, 8, 14336, 32000, 32768, sliding_window=4096)
GEMMA3_4B = config("gemma3_text", 34, 2560, 8, 4, 10240, 262208, 131072, head_dim=256, sliding_window=1024)
GEMMA3_12B = config("gemma3_text", 48, 3840, 16, 8, 15360, 262208, 131072, head_dim=256, sliding_window=1024)
GEMMA3_1B = config("gemma3_text", 26, 1152, 4, 1, 6912, 262144, 32768, head_dim=256, sliding_window=512)
OSS_120 = OSS | {"num_hidden_layers": 36, "num_local_experts": 128, "layer_types": None}

# name, fields, billions of weights as its page says, layers that see everything, layers with a window
PUBLIC = [
    *((name, SHAPES[name], SHAPES_B, layers, 0) for name, SHAPES_B, layers in (
        ("Llama-3.1-8B", 8.030, 32), ("Llama-3.2-1B", 1.236, 16), ("Yi-34B", 34.39, 60), ("Mistral-7B-v0.3", 7.248, 32),
        ("Qwen2.5-7B", 7.616, 28), ("Qwen3-8B", 8.191, 36), ("phi-4", 14.66, 40), ("SmolLM3-3B", 3.075, 36),
        ("Mixtral-8x7B", 46.70, 32), ("Qwen3-30B-A3B", 30.53, 48), ("Qwen1.5-MoE-A2.7B", 14.32, 24),
        ("deepseek-moe-16b", 16.38, 28), ("GLM-4.5-Air", 106.85, 46), ("dbrx", 131.6, 40), ("falcon-7b", 6.922, 32),
        ("command-r", 34.98, 40), ("gemma-7b", 8.538, 28), ("starcoder", 15.52, 40), ("internlm2-7b", 7.738, 32),
    )),
    ("Mistral-7B-v0.1", MISTRAL, 7.242, 0, 32),
    ("gemma-2-2b", config("gemma2", 26, 2304, 8, 4, 9216, 256000, 8192, head_dim=256, sliding_window=4096), 2.614, 13, 13),
    ("gemma-2-9b", GEMMA2, 9.242, 21, 21),
    ("gemma-2-27b", config("gemma2", 46, 4608, 32, 16, 36864, 256000, 8192, head_dim=128), 27.23, 23, 23),
    ("gemma-3-1b", GEMMA3_1B, 1.000, 4, 22),
    ("gemma-3-4b text", GEMMA3_4B, 3.88, 5, 29),
    ("gemma-3-12b text", GEMMA3_12B, 11.77, 8, 40),
    ("gemma-3-27b text", GEMMA3, 27.01, 10, 52),
    ("gpt-oss-20b", OSS, 20.91, 12, 12),
    ("gpt-oss-120b", OSS_120, 116.8, 18, 18),
    ("DeepSeek-V2-Lite", deepseek("deepseek_v2", 27, 2048, 16, 10944, 102400, 64, 2, 6, 1408, 1, None), 15.71, 27, 0),
    ("DeepSeek-V2", deepseek("deepseek_v2", 60, 5120, 128, 12288, 102400, 160, 2, 6, 1536, 1, 1536), 235.7, 60, 0),
    ("DeepSeek-V3", V3, 671.0, 61, 0),
    ("Kimi-K2", deepseek("kimi_k2", 61, 7168, 64, 18432, 163840, 384, 1, 8, 2048, 1, 1536), 1026.4, 61, 0),
]  # fmt: skip
# ruff: noqa: E501


def groups(far, near):
    """Layers of a group, groups of the two kinds."""
    if not far or not near:
        return far + near, int(bool(far)), int(bool(near))
    size = min(far, near)
    if max(far, near) < size * 1.5:
        size = max(far, near)
    return size, (far + size - 1) // size, (near + size - 1) // size


@pytest.mark.parametrize(("name", "said", "billions", "far", "near"), PUBLIC, ids=[row[0] for row in PUBLIC])
def test_weights_and_kv_memory(name, said, billions, far, near):
    spec = DecoderSpec.from_config(said, name)
    assert spec.weights / 1e9 == pytest.approx(billions, rel=0.005)
    assert (spec.layers - spec.window_layers, spec.window_layers) == (far, near)
    assert spec.kv_groups == groups(far, near)
    latent = said.get("kv_lora_rank")
    for tp in (1, 2, 4):
        if spec.heads % tp:
            continue
        page = 16 * (latent + 64) * 2 if latent else 2 * 16 * max(1, spec.kv_heads // tp) * spec.head_dim * 2
        found = kv_capacity(spec, 4096 * 2**30, tp=tp)
        assert found.block_bytes == groups(far, near)[0] * page
        assert found.num_blocks == found.available_bytes // found.block_bytes
        assert found.tokens == found.num_blocks // sum(groups(far, near)[1:]) * 16
        assert kv_capacity(spec, 4096 * 2**30, tp=tp, windows=False).block_bytes == (far + near) * page


@pytest.mark.parametrize(
    "name",
    [
        "gemma-2-2b",
        "gemma-2-9b",
        "gemma-2-27b",
        "gemma-3-1b",
        "gpt-oss-20b",
        "gpt-oss-120b",
        "DeepSeek-V2-Lite",
        "DeepSeek-V2",
        "DeepSeek-V3",
        "Kimi-K2",
    ],
)
def test_shipped_shapes_are_those_of_the_files(name):
    said = next(row[1] for row in PUBLIC if row[0] == name)
    read, own = DecoderSpec.from_config(said, name), decoder(f"owner/{name}")
    free = {"source", "weights_precision", "max_positions"}
    for each in fields(DecoderSpec):
        assert each.name in free or getattr(read, each.name) == getattr(own, each.name), each.name


def test_there_are_thirty():
    assert len(PUBLIC) >= 30


def test_active_weights_and_kv_of_a_token_as_deepseek_says():
    """DeepSeek-V3's report: 37 billion of 671 at work for a token; its cache holds 512 + 64 numbers a layer."""
    spec = DecoderSpec.from_config(V3, "v3")
    assert spec.active_weights / 1e9 == pytest.approx(37, rel=0.02)
    assert spec.kv_bytes_per_token("bfloat16") == 61 * 576 * 2 == 70_272


FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
PACKED = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}, "config_groups": {
    "group_0": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": None}}}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "weights", "cache"),
    [
        ({}, "", ""),
        ({"quantization_config": FP8}, "fp8_block", ""),
        (
            {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}},
            "fp8",
            "fp8",
        ),
        (
            {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": None}},
            "nvfp4",
            "",
        ),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "int4_wo", ""),
        ({"quantization_config": {"quant_method": "gptq", "bits": 8}}, "int8_wo", ""),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "int4_wo", ""),
        ({"quantization_config": PACKED}, "int4_wo", "fp8"),
        ({"kv_cache_dtype": "auto"}, "", ""),
        ({"kv_cache_dtype": "fp8_e4m3"}, "", "fp8"),
    ],
)
def test_precisions_are_those_of_the_checkpoint(more, weights, cache):
    spec = DecoderSpec.from_config(LLAMA | more, "m")
    assert (spec.weights_precision, spec.kv_precision) == (weights, cache)
    assert spec.weights == decoder("Llama-3.1-8B").weights
    assert (f"weights in {weights}" in spec.source) == bool(weights)
    assert (f"KV cache in {cache}" in spec.source) == bool(cache)


def test_unknown_names_say_that_a_file_works():
    with pytest.raises(InputError, match=r"did you mean 'Llama-3\.1-8B'.; a config\.json works, too"):
        decoder("meta-llama/Llama-3.1-8")
