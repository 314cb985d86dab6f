"""Fields of config.json files that change neither weights, KV memory nor FLOPs, and values under which others do not.

`HARMLESS` names fields that may hold anything, group by group with the reason. `CHANGING` names fields that matter
unless they hold nothing or one of a few values. Everything else is not known here, and `read` refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["CHANGING", "HARMLESS", "PARTS", "PARTS_FIELDS", "Changing", "empty"]

HARMLESS: dict[str, str] = {
    "names and versions": """
        architectures auto_map model_type name_or_path transformers_version tokenizer_class tokenizer_name
        for_llm_compressor finetuning_task task_specific_params custom_pipelines vllm_version unsloth_version
        unsloth_fixed
    """,
    "tokens' ids and labels": """
        bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id cls_token_id mask_token_id
        eod_token_id im_start_id im_end_id decoder_start_token_id forced_bos_token_id forced_eos_token_id
        image_token_id video_token_id audio_token_id vision_start_token_id vision_end_token_id vision_token_id
        id2label label2id num_labels problem_type pad_id boi_token_index eoi_token_index image_token_index
        spatial_merge_size boi_token_id eoi_token_id text_id suppress_tokens begin_suppress_tokens
        bad_words_ids ignore_index
    """,
    "generation": """
        max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups
        diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty
        no_repeat_ngram_size encoder_no_repeat_ngram_size num_return_sequences output_scores
        return_dict_in_generate exponential_decay_length_penalty remove_invalid_values prefix return_dict
        output_attentions output_hidden_states torchscript use_return_dict cache_implementation verbose output_past
    """,
    "training": """
        initializer_range initializer_factor init_std init_method init_device init_config attention_dropout
        attn_dropout attn_pdrop resid_pdrop embd_pdrop emb_pdrop dropout activation_dropout hidden_dropout
        hidden_dropout_prob classifier_dropout attention_probs_dropout_prob emb_dropout_prob attn_dropout_prob
        residual_dropout embedding_dropout resid_dropout embed_dropout ffn_dropout layerdrop drop_path_rate
        gradient_checkpointing use_cache router_aux_loss_coef aux_loss_alpha aux_loss_coef seq_aux
        output_router_logits router_jitter_noise input_jitter_noise z_loss_weight moe_loss_weight
        moe_jitter_eps router_z_loss_coef moe_router_aux_loss_coef uniform_expert_assignment
        initial_context_length tie_encoder_decoder is_training ep_size rescale_prenorm_residual use_bfloat16
        tf_legacy_loss bf16 fp16 fp32 embedding_fraction
    """,
    "what is computed element by element (activations, norms, rotations, scales)": """
        hidden_act hidden_activation activation_function activation act_fn ffn_act_fn afn swiglu_alpha
        swiglu_limit rms_norm_eps layer_norm_eps layer_norm_epsilon layernorm_epsilon norm_eps norm_epsilon
        norm_type layer_norm_type rmsnorm apply_residual_connection_post_layernorm post_layer_norm
        do_layer_norm_before layer_norm_elementwise_affine final_logit_softcapping attn_logit_softcapping
        query_pre_attn_scalar logit_scale logits_scaling embedding_multiplier residual_multiplier
        attention_multiplier scale_embedding scale_attn_weights scale_attn_by_inverse_layer_idx
        reorder_and_upcast_attn softmax_scale attn_scale attn_temperature_tuning floor_scale rope_theta
        rope_scaling rope_parameters rope_ratio rope_local_base_freq rope_interleaved rope_pct rotary_pct
        rotary_emb_base rotary_dim rotary_emb_fraction partial_rotary_factor rope_type rotary
        rotary_scaling_factor interpolate_factor rope_traditional mrope_section use_dynamic_ntk use_logn_attn
        no_rope_layers no_rope_layer_interval nope_layer_interval position_embedding_type position_encoding
        original_rope alibi alibi_bias_max offset_alibi clip_qkv qkv_clip attention_softmax_in_fp32
        softmax_in_fp32 scale_attention_softmax_in_fp32 fp32_residual_connection apply_query_key_layer_scaling
        attention_scale original_max_position_embeddings parallel_attn use_parallel_residual use_parallel_block
        parallel_residual norm_topk_prob routed_scaling_factor scoring_func topk_method n_group topk_group
        moe_normalize_expert_weights norm_after_topk use_routing_bias moe_norm_min slow_but_exact
        attn_uses_sequence_id prefix_lm disable_ffn_model_parallel layer_switch order_of_interleaved_layers
        position_embeddings_type qk_norm_type use_mrope
    """,
    "biases and norms, below 0.1 % of the weights": """
        attention_bias attention_out_bias mlp_bias qkv_bias use_bias use_qkv_bias lm_head_bias bias
        add_bias_linear add_qkv_bias no_bias enable_bias qk_layernorm use_qk_norm qk_norm qk_ln
        num_ln_in_parallel_attn layernorm_embedding post_norm
    """,
    "which kernels run and how work is cut": """
        attn_implementation attn_impl fc_type onnx_safe bias_dropout_fusion masked_softmax_fusion skip_bias_add
        skip_bias_add_qkv inference_runner pad_key_length pre_allocate_kv_cache validate_runner_input
        use_flash_attn use_flash_attention use_flash_attn_2 flash_attn flash_attn_version use_cache_kernel
        use_kernels use_triton pretraining_tp chunk_size_feed_forward ffn_chunk_size use_xformers
        use_memory_efficient_attention fused_mlp use_parallel_embedding
    """,
    "heads of classifiers and poolers, which engines that generate do not load": """
        summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout
        pooler_dropout
    """,
    "layers that predict further tokens under names of their own: loaded for speculative decoding alone": """
        num_mtp_modules mtp_transformer_layers use_mtp num_mtp_layers
    """,
}
"""Reason -> fields that may hold anything."""

PARTS = re.compile(r"^(vision|audio|speech|image|video|visual|img|sound|talker|token2wav|code2wav)\w*$")
"""Fields that hold parts of a model which sees, hears or speaks, where their value is a mapping."""
PARTS_FIELDS = re.compile(r"vision|image|video|audio|visual|speech|projector|mm_|multimodal|img|^(boi|eoi|boa|eoa)_")
"""Fields beside such a part that are about it."""


def empty(value: Any) -> bool:
    """Whether a field's value is empty, so that the field says nothing."""
    return value is None or value == {} or value == [] or value == ""


def _off(value: Any) -> bool:
    return empty(value) or value is False or value == 0


def _sixteen(value: Any) -> bool:
    """Whether weights have 16 bits, or 32, which engines convert to 16."""
    return empty(value) or str(value).removeprefix("torch.") in ("float16", "bfloat16", "float32", "auto", "half")


@dataclass(frozen=True, slots=True)
class Changing:
    """A field that changes what is planned.

    Parameters
    ----------
    what : str
        What the field changes, for the message.
    mend : str
        Advice on what to do about it.
    harmless : callable
        Whether a value leaves all as it is modelled.
    """

    what: str
    mend: str = "give another model"
    harmless: Callable[[Any], bool] = _off


MLA = Changing("multi-head latent attention of this model_type is not known here")
LAYERWISE = Changing("layers that differ from each other are not modelled")
SHARED = Changing("keys and values that layers share are not modelled")
ENCODER = Changing("an encoder or cross-attention beside the decoder is not modelled")

CHANGING: dict[str, Changing] = {
    **dict.fromkeys(
        ("torch_dtype", "dtype", "params_dtype"),
        Changing("weights are not in 16 bits", "give the precision with the plan, and float16 here", _sixteen),
    ),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"), MLA),
    **dict.fromkeys(("use_mla", "qk_head_dim"), MLA),
    **dict.fromkeys(("index_topk", "index_n_heads"), Changing("sparse attention by an indexer is not modelled")),
    **dict.fromkeys(("is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size"), ENCODER),
    **dict.fromkeys(("cross_attention_layers", "encoder_layers", "use_cross_attention"), ENCODER),
    **dict.fromkeys(("num_kv_shared_layers", "use_cla", "kv_share_layers"), SHARED),
    **dict.fromkeys(("block_configs", "num_key_value_heads_per_layer", "num_attention_heads_per_layer"), LAYERWISE),
    **dict.fromkeys(("ffn_multipliers", "num_query_heads", "layers_block_type", "intermediate_sizes"), LAYERWISE),
    "use_bidirectional_attention": Changing("attention to later tokens is not modelled"),
    "pruned_heads": Changing("heads that were taken out are not modelled", harmless=empty),
    "is_decoder": Changing("no decoder", harmless=lambda value: empty(value) or isinstance(value, bool)),
    "mlp_type": Changing(
        "another feed-forward block is not modelled", harmless=lambda value: value in (None, "default")
    ),
    "attn_type_list": Changing(
        "layers without softmax attention are not modelled",
        harmless=lambda value: empty(value) or (isinstance(value, list) and set(map(str, value)) == {"1"}),  # pyright: ignore[reportUnknownArgumentType]
    ),
    "shared_intermediate_size": Changing("shared experts of a width of their own are not modelled"),
    "use_cache_quantization": Changing("the KV cache is not in 16 bits"),
    **dict.fromkeys(("pre_seq_len", "prefix_projection"), Changing("learned prefixes are not modelled")),
    "quantization_bit": Changing("weights are not in 16 bits", "take the field out and give the precision"),
    "ffn_type": Changing(
        "another feed-forward block is not modelled", harmless=lambda value: value in (None, "mptmlp")
    ),
    "full_attn_mod": Changing("layers without full attention are not modelled", harmless=lambda v: v in (None, 0, 1)),
    "compression_ratio": Changing("compressed sequences are not modelled", harmless=lambda value: value in (None, 1)),
    **dict.fromkeys(
        ("use_gated_activation", "use_embedding_sharing"),
        Changing("another feed-forward block or head is not modelled", harmless=lambda value: value in (None, True)),
    ),
    "vocab_size_per_layer_input": Changing("embeddings of every layer are not modelled"),
    "hidden_size_per_layer_input": Changing("embeddings of every layer are not modelled"),
}
"""Field -> what it changes, and the values under which it does not."""
