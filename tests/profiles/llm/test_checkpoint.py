"""Shapes from config.json files: published sizes come out, and what would change them is never passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import DecoderSpec, decoder, iteration_cost
from meshwright.profiles.llm.checkpoint import FAMILIES
from meshwright.profiles.llm.decoder_names import precision_in
from meshwright.simulator.llm import LLMTrace, simulate_llm
from meshwright.worlds.llm.case import LLMCase
from meshwright.worlds.llm.data import load_data

CASE = {"cluster": {"devices": 1}, "workload": {"rate": 1.0}, "planner": {"name": "fixed"}}


def config(kind, layers, hidden, heads, kv, ffn, vocab, positions, **more):
    """The fields that most families share, by their commonest names."""
    said = {
        "model_type": kind, "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
        "num_key_value_heads": kv, "intermediate_size": ffn, "vocab_size": vocab, "max_position_embeddings": positions,
    }  # fmt: skip
    return {name: value for name, value in said.items() if value is not None} | more


LLAMA = config(
    "llama", 32, 4096, 32, 8, 14336, 128256, 131072, architectures=["LlamaForCausalLM"], attention_bias=False,
    bos_token_id=128000, hidden_act="silu", initializer_range=0.02, pretraining_tp=1, rms_norm_eps=1e-05,
    rope_scaling={"factor": 8.0, "rope_type": "llama3"}, rope_theta=500000.0, tie_word_embeddings=False,
    torch_dtype="bfloat16", transformers_version="4.43.0", use_cache=True, mlp_bias=False, attention_dropout=0.0,
)  # fmt: skip
GEMMA2 = config("gemma2", 42, 3584, 16, 8, 14336, 256000, 8192, head_dim=256, sliding_window=4096,
                final_logit_softcapping=30.0, attn_logit_softcapping=50.0, query_pre_attn_scalar=256,
                hidden_activation="gelu_pytorch_tanh", cache_implementation="hybrid")  # fmt: skip
GEMMA3 = config("gemma3_text", 62, 5376, 32, 16, 21504, 262208, 131072, head_dim=128, sliding_window=1024,
                sliding_window_pattern=6, rope_local_base_freq=10000.0)  # fmt: skip
OSS = config("gpt_oss", 24, 2880, 64, 8, 2880, 201088, 131072, head_dim=64, sliding_window=128, num_local_experts=32,
             experts_per_token=4, num_experts_per_tok=4, swiglu_limit=7.0,
             layer_types=["sliding_attention", "full_attention"] * 12)  # fmt: skip
SCOUT = config("llama4_text", 48, 5120, 40, 8, 8192, 202048, 10485760, head_dim=128, intermediate_size_mlp=16384,
               num_local_experts=16, num_experts_per_tok=1, interleave_moe_layer_step=1, attention_chunk_size=8192,
               use_qk_norm=True, no_rope_layers=[], for_llm_compressor=False)  # fmt: skip

SIZES = [
    # name, fields, billions of weights as published, bytes of keys and values of a token in 16 bits
    ("Llama-3.1-8B", LLAMA, 8.030, 131072),
    ("Llama-3.2-1B", config("llama", 16, 2048, 32, 8, 8192, 128256, 131072, tie_word_embeddings=True, head_dim=64), 1.236, 32768),
    ("Yi-34B", config("llama", 60, 7168, 56, 8, 20480, 64000, 4096), 34.39, 245760),
    ("Mistral-7B-v0.3", config("mistral", 32, 4096, 32, 8, 14336, 32768, 32768, sliding_window=None), 7.248, 131072),
    ("Ministral-8B", config("mistral", 36, 4096, 32, 8, 12288, 131072, 32768, sliding_window=32768, head_dim=128), 8.02, 147456),
    ("Qwen2.5-7B", config("qwen2", 28, 3584, 28, 4, 18944, 152064, 131072, use_sliding_window=False, sliding_window=131072, max_window_layers=28), 7.616, 57344),
    ("Qwen3-8B", config("qwen3", 36, 4096, 32, 8, 12288, 151936, 40960, head_dim=128, use_sliding_window=False), 8.191, 147456),
    ("Qwen-7B", {"model_type": "qwen", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128, "intermediate_size": 22016, "vocab_size": 151936, "seq_length": 8192, "no_bias": True, "onnx_safe": None}, 7.721, 524288),
    ("gemma-7b", config("gemma", 28, 3072, 16, 16, 24576, 256000, 8192, head_dim=256), 8.538, 458752),
    ("gemma-2-9b to 4096", GEMMA2 | {"max_position_embeddings": 4096}, 9.242, 344064),
    ("gemma-3-27b's text to 1024", GEMMA3 | {"max_position_embeddings": 1024}, 27.01, 507904),
    ("phi-2", config("phi", 32, 2560, 32, 32, 10240, 51200, 2048, partial_rotary_factor=0.4), 2.780, 327680),
    ("phi-4", config("phi3", 40, 5120, 40, 10, 17920, 100352, 16384, sliding_window=None), 14.66, 204800),
    ("gpt2", {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257}, 0.1244, 36864),
    ("gpt-j-6b", {"model_type": "gptj", "n_layer": 28, "n_head": 16, "n_embd": 4096, "n_positions": 2048, "n_inner": None, "rotary_dim": 64, "vocab_size": 50400, "tie_word_embeddings": False}, 6.05, 458752),
    ("gpt-neox-20b", config("gpt_neox", 44, 6144, 64, None, 24576, 50432, 2048), 20.55, 1081344),
    ("opt-13b", {"model_type": "opt", "num_hidden_layers": 40, "hidden_size": 5120, "word_embed_proj_dim": 5120, "num_attention_heads": 40, "ffn_dim": 20480, "vocab_size": 50272, "max_position_embeddings": 2048}, 12.85, 819200),
    ("bloom", {"model_type": "bloom", "n_layer": 70, "hidden_size": 14336, "n_head": 112, "vocab_size": 250880, "seq_length": 2048}, 176.2, 4014080),
    ("falcon-7b", {"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71, "multi_query": True, "new_decoder_architecture": False, "vocab_size": 65024}, 6.922, 8192),
    ("falcon-40b", {"model_type": "falcon", "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8, "new_decoder_architecture": True, "vocab_size": 65024}, 41.30, 122880),
    ("mpt-7b", {"model_type": "mpt", "n_layers": 32, "d_model": 4096, "n_heads": 32, "expansion_ratio": 4, "max_seq_len": 2048, "vocab_size": 50432, "attn_config": {"alibi": True, "attn_type": "multihead_attention"}}, 6.649, 524288),
    ("starcoder", {"model_type": "gpt_bigcode", "n_layer": 40, "n_embd": 6144, "n_head": 48, "n_inner": 24576, "n_positions": 8192, "multi_query": True, "vocab_size": 49152}, 15.52, 20480),
    ("command-r", config("cohere", 40, 8192, 64, 64, 22528, 256000, 8192, model_max_length=131072), 34.98, 1310720),
    ("glm-4-9b", {"model_type": "chatglm", "num_layers": 40, "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128, "ffn_hidden_size": 13696, "multi_query_attention": True, "multi_query_group_num": 2, "padded_vocab_size": 151552, "vocab_size": 151552, "seq_length": 131072}, 9.400, 40960),
    ("Baichuan2-7B", config("baichuan", 32, 4096, 32, None, 11008, 125696, 4096, model_max_length=4096, z_loss_weight=0), 7.506, 524288),
    ("internlm2-7b", config("internlm2", 32, 4096, 32, 8, 14336, 92544, 32768, bias=False), 7.738, 131072),
    ("SmolLM3-3B", config("smollm3", 36, 2048, 16, 4, 11008, 128256, 65536, no_rope_layers=[1, 1, 1, 0] * 9, use_sliding_window=False), 3.075, 73728),
    ("Mixtral-8x7B", config("mixtral", 32, 4096, 32, 8, 14336, 32000, 32768, num_local_experts=8, num_experts_per_tok=2, sliding_window=None), 46.70, 131072),
    ("Qwen3-30B-A3B", config("qwen3_moe", 48, 2048, 32, 4, 6144, 151936, 40960, head_dim=128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[]), 30.53, 98304),
    ("Qwen1.5-MoE-A2.7B", config("qwen2_moe", 24, 2048, 16, 16, 5632, 151936, 8192, num_experts=60, num_experts_per_tok=4, moe_intermediate_size=1408, shared_expert_intermediate_size=5632, decoder_sparse_step=1), 14.32, 196608),
    ("deepseek-moe-16b", config("deepseek", 28, 2048, 16, 16, 10944, 102400, 4096, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1, moe_layer_freq=1), 16.38, 229376),
    ("GLM-4.5-Air", config("glm4_moe", 46, 4096, 96, 8, 10944, 151552, 131072, head_dim=128, n_routed_experts=128, n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=1408, first_k_dense_replace=1, num_nextn_predict_layers=1), 106.85, 188416),
    ("dbrx", {"model_type": "dbrx", "n_layers": 40, "d_model": 6144, "n_heads": 48, "max_seq_len": 32768, "vocab_size": 100352, "attn_config": {"kv_n_heads": 8, "clip_qkv": 8}, "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}}, 131.6, 163840),
    ("gpt-oss-20b to 128", OSS | {"max_position_embeddings": 128}, 20.91, 49152),
    ("Llama-4-Scout's text to 8192", SCOUT | {"max_position_embeddings": 8192}, 107.77, 196608),
]  # fmt: skip
# ruff: noqa: E501


@pytest.mark.parametrize(("said", "billions", "kv"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
def test_published_sizes(said, billions, kv):
    spec = DecoderSpec.from_config(said, "m")
    assert spec.weights / 1e9 == pytest.approx(billions, rel=0.005)
    assert spec.kv_bytes_per_token() == kv


REFUSED = [
    # fields, and what the error names
    (SCOUT, "attention_chunk_size: 8192"),
    (LLAMA | {"quantization_config": {"quant_method": "compressed-tensors"}}, "quantization_config"),
    (LLAMA | {"compression_config": {"format": "float-quantized"}}, "compression_config"),
    (LLAMA | {"torch_dtype": "float8_e4m3fn"}, "torch_dtype"),
    (LLAMA | {"dtype": "float8_e4m3fn"}, "dtype"),
    (LLAMA | {"vision_config": {"hidden_size": 1024}}, "vision_config"),
    ({"model_type": "llava_next", "text_config": LLAMA, "vision_config": {"hidden_size": 1024}}, "vision_config"),
    ({"model_type": "x", "text_config": LLAMA, "audio_config": {"d_model": 1024}}, "audio_config"),
    (LLAMA | {"is_encoder_decoder": True}, "is_encoder_decoder"),
    (LLAMA | {"kv_lora_rank": 512}, "kv_lora_rank"),
    (LLAMA | {"num_kv_shared_layers": 10}, "num_kv_shared_layers"),
    (LLAMA | {"layer_types": ["linear_attention"] * 32}, "layer_types: 'linear_attention'"),
    (LLAMA | {"layer_types": ["full_attention"] * 3}, "layer_types: 3 kinds of 32"),
    (LLAMA | {"intermediate_size": [14336] * 32}, "intermediate_size"),
    (LLAMA | {"block_configs": [{"ffn": {}}]}, "block_configs"),
    (LLAMA | {"num_local_experts": 8, "num_experts_per_tok": 2}, "num_local_experts"),
    (LLAMA | {"n_layer": 33}, "num_hidden_layers 32 and n_layer 33"),
    ({k: v for k, v in LLAMA.items() if k != "model_type"}, "model_type: missing"),
    (LLAMA | {"model_type": "mistery"}, "model_type: 'mistery' .*perhaps mist"),
    (LLAMA | {"model_type": "mamba2"}, "model_type: 'mamba2': state-space"),
    (config("opt", 24, 1024, 16, None, None, 50272, 2048, ffn_dim=4096, word_embed_proj_dim=512), "word_embed_proj_dim: 512"),
    (config("gemma", 28, 3072, 16, None, 24576, 256000, 8192), "missing in config.json: num_key_value_heads"),
    (LLAMA | {"model_type": "deepseek_v3"}, "missing in config.json: qk_nope_head_dim, .*latent attention"),
    (LLAMA | {"model_type": "deepseek_v32"}, "model_type: 'deepseek_v32': sparse attention that an indexer"),
    (LLAMA | {"kv_cache_dtype": "int3"}, "kv_cache_dtype: 'int3': a precision that is not known"),
    (LLAMA | {"sliding_window": 0}, "sliding_window: expected an integer >= 1 or null"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "names"), REFUSED, ids=[names[:30] for _, names in REFUSED])
def test_what_is_not_modelled_is_named(said, names, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(said))
    with pytest.raises(InputError, match=names) as caught:
        decoder(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_field_that_nobody_knows_is_named_in_every_family(kind):
    """Whatever the next checkpoint invents is not dropped; what holds nothing says nothing."""
    said = config(
        kind, 2, 64, 4, 2, 96, 100, 128, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        sliding_window=None, attention_chunk_size=None, head_dim=16, **dict.fromkeys(FAMILIES[kind].needs, 0),
    ) if FAMILIES[kind].experts else config(kind, 2, 64, 4, 2, 96, 100, 128, sliding_window=None, head_dim=16)  # fmt: skip
    if FAMILIES[kind].latent:
        said |= {"kv_lora_rank": 8, "q_lora_rank": None, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
    plain = DecoderSpec.from_config(said, "m")
    assert DecoderSpec.from_config(said | {"new_trick": None}, "m") == plain
    for value in (3, 1.5, True, False, "x", [1], {"a": 1}):
        with pytest.raises(InputError, match=r"new_trick: .*not known here") as caught:
            DecoderSpec.from_config(said | {"new_trick": value}, "m")
        assert repr(value) in str(caught.value)
        ignoring = DecoderSpec.from_config(said | {"new_trick": value}, "m", ignore=("new_trick",))
        assert ignoring.weights == plain.weights
        assert ignoring.source == "config.json without new_trick"


def test_ignoring_a_field_says_so(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llava", "text_config": LLAMA, "vision_config": {"hidden_size": 1024},
                                "image_token_index": 32000, "vision_feature_layer": -2}))  # fmt: skip
    spec = decoder(str(path), ignore=("vision_config",))
    assert spec.weights == decoder("Llama-3.1-8B").weights
    assert spec.source == "config.json without vision_config"
    windows = DecoderSpec.from_config(GEMMA2, "g", ignore=("sliding_window",))
    assert (windows.window, windows.max_positions) == (0, 8192)
    for wrong in (("vision_tower",), "vision_config"):
        with pytest.raises(InputError, match="ignore"):
            decoder(str(path), ignore=wrong)
    with pytest.raises(InputError, match="ignore"):
        decoder("Llama-3.1-8B", ignore=("sliding_window",))


def test_several_wrong_fields_are_named_at_once():
    with pytest.raises(InputError) as caught:
        DecoderSpec.from_config(
            LLAMA | {"quantization_config": {"quant_method": "x"}, "new_trick": 1, "kv_lora_rank": 8}, "m"
        )
    assert all(name in str(caught.value) for name in ("quantization_config", "new_trick", "kv_lora_rank"))


def test_a_scheduler_without_windows_runs_no_sequences_beyond_one():
    """The shipped Mistral-7B-v0.1 sees 4,096 tokens: a scheduler that does not know it runs no longer requests."""
    model = decoder("Mistral-7B-Instruct-v0.1")
    assert (model.window, model.longest) == (4096, 4096)
    assert decoder("Mistral-7B-Instruct-v0.2").window == decoder("Mistral-7B-Instruct-v0.3").window == 0
    cost = iteration_cost(model, device("h100-80gb"))
    options = {"num_blocks": 1000, "max_model_len": 8192}
    assert simulate_llm(LLMTrace([0], [4000], [96]), config=options, cost=cost).finish[0] > 0
    with pytest.raises(InputError, match=r"a request of 4097 tokens.*sliding_window.*4096"):
        simulate_llm(LLMTrace([0], [4000], [97]), config=options, cost=cost)
    windows = options | {"sliding_window": 4096, "full_groups": 0, "window_groups": 1, "enable_prefix_caching": False}
    assert simulate_llm(LLMTrace([0], [4000], [97]), config=windows, cost=cost).finish[0] > 0


@pytest.mark.slow
def test_sizes_are_those_of_the_real_modules():
    """Every family that `transformers` has, in its default shape: as many weights as the module, or an error."""
    transformers = pytest.importorskip("transformers", reason="compares with transformers' modules; pip install it")
    import torch

    transformers.logging.set_verbosity_error()
    held = 0
    for kind in FAMILIES:
        try:
            shape = transformers.AutoConfig.for_model(kind)
            with torch.device("meta"):
                module = transformers.AutoModelForCausalLM.from_config(shape)
        except Exception:  # defaults that make no module, or none of that name: not ours
            continue
        said = json.loads(shape.to_json_string(use_diff=False))
        for name in ("sliding_window", "attention_chunk_size"):  # weights do not depend on windows
            said[name] = None
        try:
            spec = DecoderSpec.from_config(said, kind)
        except InputError as refused:
            assert "give head_dim" in str(refused), refused  # noqa: PT017
            continue
        assert spec.weights == pytest.approx(sum(p.numel() for p in module.parameters()), rel=0.005), kind
        held += 1
    assert held > 40


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "fp8"), ("TheBloke/Llama-2-7B-AWQ", "int4_wo"),
        ("llama-3.1-8b-w8a16", "int8_wo"), ("Llama-3.1-70B-Instruct-NVFP4", "nvfp4"), ("llama-3.1-8b", "bf16"),
    ],
)  # fmt: skip
def test_names_of_quantised_checkpoints_are_not_planned_in_16_bits(name, precision, capsys):
    """Such a name gave the shape, and the plan took 16-bit weights without a word."""
    assert precision_in(name) == precision
    call = ["plan", "llm", "--model", name, "--device", "h100-80gb", "--devices", "1", "--rate", "2"]
    call += ["--lengths", "nowhere.csv"]  # so that nothing is planned
    assert run(call) == 2
    unsaid = capsys.readouterr().err
    assert (f"planner.options.precision={precision}" in unsaid) == (precision != "bf16")
    assert run([*call, "-o", f"precision={precision}"]) == 2
    assert "tells of weights" not in capsys.readouterr().err
    case = {"model": name, "engine": {} if precision == "bf16" else {"precision": precision}}
    load_data([LLMCase.model_validate(CASE | case)], Path())
    if precision != "bf16":
        with pytest.raises(InputError, match=f"model: .*{precision}"):
            load_data([LLMCase.model_validate(CASE | case | {"engine": {}})], Path())
