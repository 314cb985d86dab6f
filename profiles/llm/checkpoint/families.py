"""Families of decoders by ``model_type``: what their code takes for granted and their config.json does not say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["FAMILIES", "NOT_MODELLED", "Family"]


@dataclass(frozen=True, slots=True)
class Family:
    """What the code of one `model_type` takes for granted.

    Parameters
    ----------
    gated : bool
        Whether the feed-forward block has a gate, whatever its activation is called.
    tied : bool
        The default of ``tie_word_embeddings``.
    grouped : bool
        Whether the code's own default of ``num_key_value_heads`` is a number: the field must then be said. Where it
        is not, a missing field means as many as there are heads.
    head_dim : int
        What a missing ``head_dim`` means; 0: the hidden size over the heads.
    learned, biases : bool
        `DecoderSpec.learned_positions` and `biases`.
    four : bool
        Whether a missing width of the feed-forward block means four times the hidden size.
    window : int
        What a missing ``sliding_window`` (``attention_chunk_size``) means; 0: no window.
    pattern : int
        Where the file does not say which layers have the window: every so manieth sees everything; 0: none does.
    latent : bool
        Whether attention is multi-head latent attention.
    switch : bool
        Whether windows are off unless ``use_sliding_window`` turns them on.
    experts : {"", "own", "ffn"}
        Whether there are experts, and whether their width is a field of its own or that of the feed-forward block.
    needs : tuple of str
        Further fields whose default in the family's code is not nothing: they must be said.
    """

    gated: bool = True
    tied: bool = False
    grouped: bool = False
    head_dim: int = 0
    learned: bool = False
    biases: bool = False
    four: bool = False
    window: int = 0
    pattern: int = 0
    latent: bool = False
    switch: bool = False
    experts: Literal["", "own", "ffn"] = ""
    needs: tuple[str, ...] = ()


LLAMA = Family()
GROUPED = Family(grouped=True)
QWEN = Family(switch=True)
GEMMA = Family(tied=True, grouped=True, head_dim=256)
MIXTRAL = Family(grouped=True, experts="ffn")
PLAIN = Family(gated=False, biases=True)
GPT2 = replace(PLAIN, tied=True, learned=True, four=True)

FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("llama", "Yi", "yi", "internlm", "internlm2", "baichuan", "granite", "olmo", "olmo2"), LLAMA),
    **dict.fromkeys(("stablelm", "stablelm_epoch", "exaone", "hunyuan_v1_dense", "phi3"), LLAMA),
    "mistral": replace(GROUPED, window=4096),
    "ministral": replace(GROUPED, window=4096),
    "ministral3": replace(GROUPED, head_dim=128),
    "internlm3": replace(GROUPED, head_dim=128),
    "seed_oss": replace(GROUPED, head_dim=128),
    "smollm3": Family(tied=True, grouped=True, switch=True),
    "helium": replace(GROUPED, head_dim=128),
    "ernie4_5": Family(tied=True, grouped=True, head_dim=128),
    "olmo3": replace(LLAMA, window=4096, pattern=4),
    "exaone4": replace(GROUPED, window=4096, pattern=4),
    "qwen": Family(),  # the first Qwen; `read` halves its width
    **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), QWEN),
    "qwen3": replace(QWEN, grouped=True, head_dim=128),
    "qwen3_vl_text": replace(GROUPED, head_dim=128),
    "gemma": GEMMA,
    "gemma2": replace(GEMMA, window=4096, pattern=2),
    "gemma3_text": replace(GEMMA, window=4096, pattern=6),
    "vaultgemma": replace(GEMMA, window=4096, pattern=2),
    "cohere": Family(tied=True),
    "cohere2": Family(tied=True, window=4096, pattern=4),
    "glm": replace(GROUPED, head_dim=128),
    "glm4": replace(GROUPED, head_dim=128),
    "chatglm": Family(),
    # Without a gate.
    "opt": replace(PLAIN, tied=True, learned=True),
    "gpt2": GPT2,
    "gpt_bigcode": GPT2,
    "gptj": replace(PLAIN, four=True),
    "codegen": replace(PLAIN, four=True),
    "gpt_neox": PLAIN,
    "bloom": replace(PLAIN, tied=True, four=True),
    "phi": PLAIN,
    "starcoder2": replace(PLAIN, tied=True, grouped=True),
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), Family(gated=False, tied=True, four=True)),
    "mpt": Family(gated=False, tied=True, four=True),
    "persimmon": PLAIN,
    "nemotron": Family(gated=False),
    "arcee": Family(gated=False),
    "apertus": Family(gated=False),
    # Experts.
    "mixtral": MIXTRAL,
    "phimoe": MIXTRAL,
    "minimax_m2": replace(MIXTRAL, head_dim=128),
    "olmoe": Family(experts="ffn"),
    "flex_olmo": Family(experts="ffn"),
    "granitemoe": Family(experts="ffn"),
    "gpt_oss": Family(grouped=True, head_dim=64, window=128, pattern=2, experts="ffn"),
    "dbrx": Family(grouped=True, experts="ffn"),
    "llama4_text": Family(grouped=True, head_dim=128, window=8192, experts="ffn"),
    "qwen2_moe": replace(QWEN, experts="own", needs=("shared_expert_intermediate_size",)),
    "qwen3_moe": replace(QWEN, grouped=True, experts="own"),
    "qwen3_vl_moe_text": replace(GROUPED, experts="own"),
    "deepseek": Family(experts="own"),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite"), Family(experts="own", latent=True)),
    "dots1": Family(window=4096, experts="own"),
    "glm4_moe": replace(GROUPED, experts="own", needs=("n_shared_experts", "first_k_dense_replace")),
    "ernie4_5_moe": Family(
        tied=True, grouped=True, experts="own", needs=("moe_num_shared_experts", "moe_layer_start_index")
    ),
}
"""``model_type`` -> its family: attention in every layer, beside one feed-forward block or experts."""

STATE = "state-space or recurrent layers, whose memory does not grow with the tokens"
MAMBA = "state-space (Mamba) layers beside attention"
LINEAR = "linear attention beside full attention"
LATENT = "multi-head latent attention of a form of its own"
HYBRID = "layers of different kinds"
BLOCKS = "blocks of different widths"
NOT_MODELLED: dict[str, str] = {
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7", "xlstm"), STATE),
    **dict.fromkeys(("retnet", "gla", "hgrn2", "delta_net", "gated_deltanet"), STATE),
    "recurrent_gemma": "recurrent layers beside local attention",
    **dict.fromkeys(("jamba", "bamba", "zamba", "zamba2", "falcon_h1", "nemotron_h", "hymba"), MAMBA),
    **dict.fromkeys(("granitemoehybrid", "plamo2", "phi4flash"), MAMBA),
    **dict.fromkeys(("lfm2", "lfm2_moe"), "short convolutions beside attention"),
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), LINEAR),
    **dict.fromkeys(("kimi_linear", "minimax", "minimax_text_01", "minimax_m1", "olmo_hybrid"), LINEAR),
    **dict.fromkeys(("bailing_hybrid", "bailing_moe_linear"), LINEAR),
    **dict.fromkeys(("gemma4", "gemma4_text"), HYBRID),
    **dict.fromkeys(("minicpm3", "youtu", "deepseek_vl_v2"), LATENT),
    **dict.fromkeys(("longcat_flash", "bailing_moe_v2_5"), LATENT),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), "sparse attention that an indexer chooses"),
    **dict.fromkeys(("openelm", "nemotron-nas", "deci", "decilm", "gpt_oss_puzzle"), BLOCKS),
    **dict.fromkeys(("gemma3n", "gemma3n_text"), "per-layer embeddings and shared keys and values"),
    **dict.fromkeys(("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "whisper", "t5gemma"), "an encoder beside it"),
    **dict.fromkeys(("mllama", "mllama_text_model"), "layers with cross-attention"),
    "arctic": "a dense block beside the experts in every layer",
    "hunyuan_v1_moe": "experts that differ between layers",
    "gpt_neo": "local attention in every other layer",
    "diffllama": "differential attention",
    "jetmoe": "experts of attention",
    "phi3small": "block-sparse attention",
    "bitnet": "ternary weights",
}
"""``model_type`` -> what it has that is not modelled."""
