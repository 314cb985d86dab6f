"""Small models of transformers, with random weights, by their names: modules and inputs as a user has them."""

from __future__ import annotations

from typing import Any

import torch

WORDS, ROWS, LONG = 32, 2, 6
SIZES = {"vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
         "num_attention_heads": 4, "max_position_embeddings": 16, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2}  # fmt: skip
GROUPED = {"num_key_value_heads": 2, "head_dim": 4}
MOE = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
LATENT = {"num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
          "v_head_dim": 4, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 2,
          "topk_group": 1, "moe_intermediate_size": 8, "first_k_dense_replace": 0}  # fmt: skip
PAIRS = {"vocab_size": WORDS, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "max_position_embeddings": 16}  # fmt: skip
T5 = {"vocab_size": WORDS, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": 4,
      "decoder_start_token_id": 0, "pad_token_id": 0}  # fmt: skip
IMAGES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32,
          "image_size": 8, "patch_size": 4}  # fmt: skip
GPT2 = {"vocab_size": WORDS, "n_embd": 16, "n_layer": 1, "n_head": 4, "n_positions": 16}
SWIN = {"image_size": 8, "patch_size": 2, "embed_dim": 8, "depths": [2], "num_heads": [2], "window_size": 2}
MAMBA = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "llama": ("LlamaForCausalLM", "LlamaConfig", SIZES | GROUPED),
    "mistral-window": ("MistralForCausalLM", "MistralConfig", SIZES | GROUPED | {"sliding_window": 4}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", SIZES | GROUPED | MOE),
    "bert": ("BertForMaskedLM", "BertConfig", SIZES),
    "deberta-v2": ("DebertaV2ForMaskedLM", "DebertaV2Config", SIZES | {
        "relative_attention": True, "position_buckets": 4, "pos_att_type": ["p2c", "c2p"]}),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "bart": ("BartForConditionalGeneration", "BartConfig", PAIRS),
    "vit": ("ViTForImageClassification", "ViTConfig", IMAGES),
    "swin": ("SwinForImageClassification", "SwinConfig", SWIN),
    "llama-classifier": ("LlamaForSequenceClassification", "LlamaConfig", SIZES | GROUPED),
    "mamba": ("MambaForCausalLM", "MambaConfig", MAMBA),
}  # fmt: skip
"""Of every kind one: decoders, experts, encoders, encoders with decoders, images, state spaces."""

MORE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt-neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SIZES),
    "opt": ("OPTForCausalLM", "OPTConfig", SIZES | {"ffn_dim": 32, "word_embed_proj_dim": 16}),
    "bloom": ("BloomForCausalLM", "BloomConfig", SIZES | {"n_layer": 1, "n_head": 4}),
    "falcon": ("FalconForCausalLM", "FalconConfig", SIZES),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", SIZES | GROUPED | {"sliding_window": 4, "num_hidden_layers": 2}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", SIZES | {"num_key_value_heads": 2}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", SIZES | GROUPED),
    "qwen2-moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", SIZES | GROUPED | MOE | {
        "shared_expert_intermediate_size": 16}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", SIZES),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", SIZES),
    "granite": ("GraniteForCausalLM", "GraniteConfig", SIZES),
    "deepseek-v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", SIZES | LATENT),
    "gpt-oss": ("GptOssForCausalLM", "GptOssConfig", SIZES | GROUPED | MOE | {"sliding_window": 4}),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", SIZES | {"pad_token_id": 1}),
    "albert": ("AlbertForMaskedLM", "AlbertConfig", SIZES | {"embedding_size": 8}),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", SIZES | {"embedding_size": 8}),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Config", IMAGES),
    "beit": ("BeitForImageClassification", "BeitConfig", IMAGES),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig", {
        "hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 2}),
    "marian": ("MarianMTModel", "MarianConfig", PAIRS | {"decoder_vocab_size": WORDS}),
}  # fmt: skip
"""Others, which run with all tests only."""


def made(name: str, **more: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """A model in training mode without dropout, and inputs with labels."""
    import transformers

    kind, configuration, sizes = (MODELS | MORE)[name]
    config = getattr(transformers, configuration)(**(sizes | more))
    config.use_cache = False
    for key, value in list(vars(config).items()):
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config).train()
    return model, inputs_of(kind, model)


def inputs_of(kind: str, model: Any) -> dict[str, torch.Tensor]:
    """Random tokens or images, and labels that fit."""
    draw = torch.Generator().manual_seed(1)
    if model.main_input_name == "pixel_values":
        side = model.config.image_size if hasattr(model.config, "image_size") else 8
        first = torch.randn(ROWS, 3, side, side, generator=draw)
    else:
        first = torch.randint(3, WORDS, (ROWS, LONG), generator=draw)
    shape, most = ((ROWS,), 2) if "Classification" in kind else ((ROWS, LONG), WORDS)
    return {model.main_input_name: first, "labels": torch.randint(0, most, shape, generator=draw)}
