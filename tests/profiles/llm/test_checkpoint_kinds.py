"""config.json files whose fields hold what they cannot, or say nothing where that means something."""

from __future__ import annotations

import json
import math

import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import DecoderSpec, decoder
from meshwright.profiles.llm.checkpoint import FAMILIES
from meshwright.profiles.llm.checkpoint.kinds import LEAST, LISTS, SWITCHES

from .test_checkpoint import LLAMA, SCOUT, SIZES, config

SHAPES = {row[0]: row[1] for row in SIZES}
OTHERS = ("8", "false", "", 2.5, 4096.0, math.nan, math.inf, [], ["1"], {}, {"a": 1})
SAID = [
    *((name, value) for name in LEAST for value in (*OTHERS, True, LEAST[name] - 1)),
    *((name, value) for name in LISTS for value in (0, True, "1", ["1"], [1.0], [None], {"1": 1})),
    *((name, value) for name in (*SWITCHES, "tie_word_embeddings") for value in (*OTHERS, 0, 1)),
    ("tie_word_embeddings", None),
    *(("model_type", value) for value in (1, True, [], ["llama"], {"a": 1})),
    *((name, value) for name in ("hidden_size", "num_key_value_heads", "head_dim") for value in (*OTHERS, True, 0, -1)),
]


@pytest.mark.parametrize("said", [LLAMA, SHAPES["Qwen3-30B-A3B"]], ids=["dense", "experts"])
def test_a_value_of_another_kind_is_not_taken_for_none(said):
    """JSON knows NaN; quotes and lists come of scripts that write such files."""
    for name, value in SAID:
        with pytest.raises(InputError) as caught:
            DecoderSpec.from_config(said | {name: value}, "m")
        assert f"{name}: expected" in str(caught.value), (name, value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [["llama"], "mistery", "mamba2"])
def test_an_unknown_family_is_not_asked_for_experts(kind):
    with pytest.raises(InputError, match="model_type: ") as caught:
        DecoderSpec.from_config(LLAMA | {"model_type": kind}, "m")
    assert "missing" not in str(caught.value)


def test_null_and_absence_of_counts():
    """A family of experts says how many; what its code fills in with something is said, too."""
    for kind, family in FAMILIES.items():
        if not family.experts:
            continue
        said = config(
            kind, 2, 64, 4, 2, 96, 100, 128, num_experts_per_tok=2, moe_intermediate_size=32, head_dim=16,
            attention_chunk_size=None, sliding_window=None, **dict.fromkeys(family.needs, 0),
        )  # fmt: skip
        if family.latent:
            said |= {"kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
        for more in ({}, {"num_experts": None}):
            with pytest.raises(InputError, match=r"missing in config\.json: num_local_experts"):
                DecoderSpec.from_config(said | more, "m")
        assert DecoderSpec.from_config(said | {"num_experts": 0}, "m").experts == 0
        for name in family.needs:
            with pytest.raises(InputError, match=f"missing in config.json: {name}"):
                DecoderSpec.from_config({k: v for k, v in said.items() if k != name} | {"num_experts": 4}, "m")


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (SHAPES["Qwen3-30B-A3B"] | {"num_local_experts": 8}, "num_local_experts 8 and num_experts 128"),
        (SHAPES["Qwen3-30B-A3B"] | {"moe_top_k": 2}, "num_experts_per_tok 8 and moe_top_k 2"),
        ({k: v for k, v in SHAPES["deepseek-moe-16b"].items() if k != "intermediate_size"}, "_size: missing; 1 l"),
        ({k: v for k, v in SHAPES["gpt2"].items() if k not in ("n_positions", "n_ctx")}, "missing .*: max_position"),
        (LLAMA | {"attention_chunk_size": 512}, "attention_chunk_size: 512"),
        (SCOUT | {"max_position_embeddings": 8192, "sliding_window": 512}, "sliding_window: 512"),
        ({"model_type": "gemma3", "text_config": LLAMA, "tie_word_embeddings": True},
         "tie_word_embeddings: True, and False in the part on text"),
        ({"model_type": "gemma3", "text_config": SHAPES["gemma-7b"], "tie_word_embeddings": 0}, "_embeddings: exp"),
    ],
)  # fmt: skip
def test_fields_against_each_other(said, names, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(said))
    with pytest.raises(InputError, match=names):
        decoder(str(path))


def test_one_expert_is_as_wide_as_an_expert():
    one = DecoderSpec.from_config(SHAPES["Qwen3-30B-A3B"] | {"num_experts": 1, "num_experts_per_tok": 1}, "m")
    assert (one.experts, one.moe_ffn, one.moe_layers) == (1, 768, 48)


def test_fields_of_published_files_that_change_nothing():
    """GPT-2's, Qwen2.5's and Command R7B's files have them."""
    more = {"output_past": True, "use_mrope": False, "use_parallel_embedding": True}
    assert DecoderSpec.from_config(LLAMA | more, "m") == DecoderSpec.from_config(LLAMA, "m")
