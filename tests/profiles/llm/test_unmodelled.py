"""config.json files of kinds that are not modelled: one line, which names the kind and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles.llm import DecoderSpec
from meshwright.profiles.llm.checkpoint.families import NOT_MODELLED

from .test_checkpoint import LLAMA

LAYERS = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
SIZES = LAYERS | {"intermediate_size": 14336, "vocab_size": 128256}
STATE, MAMBA, LINEAR = "state-space or recurrent", "state-space (Mamba) layers", "linear attention"

# model_type, what the files of such models hold beside, and what the error calls their kind
KINDS: list[tuple[str, dict[str, Any], str]] = [
    ("mamba", {"d_model": 2560, "state_size": 16, "hidden_size": 2560, "n_layer": 64, "vocab_size": 50280}, STATE),
    ("mamba2", {"state_size": 128, "num_heads": 128, "head_dim": 64, "time_step_limit": [0.0, float("inf")]}, STATE),
    ("rwkv", {"attention_hidden_size": 4096, "context_length": 1024, "vocab_size": 50277}, STATE),
    ("jamba", SIZES | {"attn_layer_period": 8, "expert_layer_period": 2, "num_experts": 16, "mamba_d_conv": 4}, MAMBA),
    ("falcon_h1", SIZES | {"mamba_d_ssm": 3072, "ssm_multipliers": [1, 1, 1, 1, 1]}, MAMBA),
    ("bamba", SIZES | {"attn_layer_indices": [9, 18, 27], "mamba_d_state": 128}, MAMBA),
    ("nemotron_h", SIZES | {"hybrid_override_pattern": "M-M-M-M*-M-", "ssm_state_size": 128}, MAMBA),
    ("granitemoehybrid", SIZES | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 1024}, MAMBA),
    ("zamba2", {"hybrid_layer_ids": [6, 12], "layers_block_type": ["mamba", "hybrid"]}, MAMBA),
    ("phi4flash", SIZES | {"sliding_window": [512] * 32, "mamba_d_state": 16, "mb_per_layer": 2}, MAMBA),
    ("qwen3_next", SIZES | {"layer_types": ["linear_attention"] * 3 + ["full_attention"], "num_experts": 512}, LINEAR),
    ("minimax_text_01", SIZES | {"attn_type_list": [0] * 7 + [1], "num_local_experts": 32}, LINEAR),
    ("minimax_m1", SIZES | {"attn_type_list": [0] * 7 + [1], "num_local_experts": 32}, LINEAR),
    ("kimi_linear", SIZES | {"linear_attn_config": {"kda_layers": [1, 2, 3]}, "kv_lora_rank": 512}, LINEAR),
    ("bailing_moe_linear", SIZES | {"layer_group_size": 5, "num_experts": 256}, LINEAR),
    ("lfm2", LAYERS | {"conv_L_cache": 3, "full_attn_idxs": [2, 5], "block_ff_dim": 12288}, "short convolutions"),
    ("recurrent_gemma", SIZES | {"lru_width": 2560, "block_types": ["recurrent", "attention"]}, "recurrent layers"),
    ("deepseek_v32", SIZES | {"index_topk": 2048, "index_n_heads": 64}, "sparse attention that an indexer chooses"),
    ("mllama_text_model", SIZES | {"cross_attention_layers": [3, 8, 13]}, "layers with cross-attention"),
]


@pytest.mark.parametrize(("kind", "said", "name"), KINDS, ids=[row[0] for row in KINDS])
def test_the_kind_alone_is_named(kind: str, said: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError) as caught:
        DecoderSpec.from_config({"model_type": kind} | said, "config.json")
    assert str(caught.value) == (
        f"config.json: model_type: {kind!r}: {NOT_MODELLED[kind]}; not modelled, give another model"
    )
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("outer", "inner"), [("qwen3_5", "qwen3_5_text"), ("mllama", "mllama_text_model"), ("gemma3n", "gemma3n_text")]
)
def test_so_is_that_of_a_part(outer: str, inner: str) -> None:
    said = {"model_type": outer, "vision_config": {"hidden_size": 8}, "text_config": SIZES | {"model_type": inner}}
    for whole in (said, said | {"model_type": "other"}):
        with pytest.raises(InputError) as caught:
            DecoderSpec.from_config(whole, "m")
        assert str(caught.value).startswith(f"m: model_type: {(inner if whole is not said else outer)!r}: ")
        assert "vision_config" not in str(caught.value)


def test_layers_of_such_kinds_are_refused_in_families_that_are_modelled() -> None:
    for kinds in (["linear_attention"] * 32, ["full_attention"] * 31 + ["mamba"]):
        with pytest.raises(InputError, match=f"layer_types: '{kinds[-1]}'") as caught:
            DecoderSpec.from_config(LLAMA | {"layer_types": kinds}, "m")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"model_type": "qwen3_next"} | SIZES, "model_type: 'qwen3_next': linear attention"),
        (LLAMA | {"sliding_window": 0}, "sliding_window: expected an integer >= 1 or null"),
        (LLAMA | {"sliding_window": -1}, "sliding_window: expected an integer >= 1 or null"),
        (LLAMA | {"num_nextn_predict_layers": -1}, "num_nextn_predict_layers: expected"),
    ],
)
def test_at_the_command_line_it_is_one_line(
    said: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(said))
    assert run(["plan", "llm", "--model", str(path), "--devices", "8", "--rate", "1"]) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1
    assert "Traceback" not in shown


def test_a_link_of_nothing_and_a_device_without_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my-gpu.yaml"
    words = ["--model", "llama-3.1-8b", "--device", str(path), "--devices", "8", "--rate", "1"]
    for link in ("0", "-1e9", ".nan", "fast"):
        path.write_text(f"like: l40s-48gb\nintra_node: {{bandwidth_bytes_per_s: {link}, latency_s: 2e-5}}\n")
        assert run(["plan", "llm", *words]) == 2
        shown = capsys.readouterr().err
        assert "bandwidth" in shown
        assert shown.count("\n") == 1
