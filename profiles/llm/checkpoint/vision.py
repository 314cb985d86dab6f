"""Reads ``vision_config`` of the kinds of towers that are modelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tower import Tower

__all__ = ["BESIDE", "TOWERS", "read_tower"]

QWEN = ("qwen2_vl", "qwen2_5_vl")
TOWERS = (*QWEN, "gemma3", "llava", "mistral3")
"""``model_type`` of the whole model."""
BESIDE = (
    "mm_tokens_per_image", "spatial_merge_size", "vision_feature_layer", "vision_feature_select_strategy",
    "multimodal_projector_bias", "projector_hidden_act", "image_seq_length",
)  # fmt: skip
"""Fields beside ``vision_config`` that are about it."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "qwen2_vl": {
        "depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "patch_size": 14, "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
    "qwen2_5_vl": {
        "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "patch_size": 14,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
    },
    "siglip_vision_model": {
        "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072,
        "image_size": 224, "patch_size": 16,
    },
    "clip_vision_model": {
        "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072,
        "image_size": 224, "patch_size": 32,
    },
    "pixtral": {
        "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096,
        "image_size": 1024, "patch_size": 16,
    },
}  # fmt: skip
"""What the published code takes where a file says nothing (transformers' configurations)."""
HARMLESS = (
    "model_type", "hidden_act", "attention_dropout", "layer_norm_eps", "initializer_factor", "initializer_range",
    "in_chans", "in_channels", "num_channels", "num_positions", "vision_use_head", "projection_dim", "vocab_size",
    "spatial_patch_size", "tokens_per_second", "rope_theta", "rope_scaling", "rope_parameters", "is_composition",
    "head_dim", "torch_dtype", "dtype", "architectures", "dropout", "transformers_version", "out_hidden_size",
    "num_image_tokens",
)  # fmt: skip
"""Fields of such a part that may hold anything."""


def read_tower(
    kind: str, said: Mapping[str, Any], whole: Mapping[str, Any], hidden: int
) -> tuple[Tower | None, list[str]]:
    """The tower of a model, and what is wrong with what the file says of it.

    Parameters
    ----------
    kind : str
        ``model_type`` of the whole model, one of `TOWERS`.
    said : mapping
        What ``vision_config`` holds.
    whole : mapping
        Fields beside it.
    hidden : int
        Width of the decoder.
    """
    own = kind if kind in QWEN else said.get("model_type", {"gemma3": "siglip_vision_model"}.get(kind, "pixtral"))
    if own not in DEFAULTS:
        return None, [f"vision_config: model_type: {own!r}: expected one of {', '.join(DEFAULTS)}"]
    defaults = DEFAULTS[own]
    known = {*defaults, *HARMLESS, *(("hidden_size",) if kind in QWEN else ())}
    unknown = [field for field in said if field not in known and not field.startswith("_")]
    fields = defaults | {name: value for name, value in said.items() if value is not None}
    wrong = [
        f"vision_config: {name}: expected an integer >= 1 (got {fields[name]!r:.60})"
        for name, value in defaults.items()
        if isinstance(value, int) and not (type(fields[name]) is int and fields[name] >= 1)
    ]
    if unknown:
        wrong.append(f"vision_config: {', '.join(unknown)}: not known in a tower of kind {own!r}")
    if wrong:
        return None, wrong
    return (_qwen(own, fields, hidden), []) if kind in QWEN else _plain(kind, own, fields, whole, hidden)


def _qwen(kind: str, f: Mapping[str, Any], out: int) -> Tower:
    width, merge, patch = f["embed_dim" if kind == QWEN[0] else "hidden_size"], f["spatial_merge_size"], f["patch_size"]
    merged = width * merge**2
    gated = kind == QWEN[1]
    return Tower(
        f["depth"], width, f["num_heads"], f["intermediate_size"] if gated else width * f["mlp_ratio"], patch, gated,
        merge, window=f["window_size"] if gated else 0, full_layers=len(f["fullatt_block_indexes"]) if gated else 0,
        projector=merged * merged + merged * out, further=3 * f["temporal_patch_size"] * patch**2 * width,
    )  # fmt: skip


def _plain(
    kind: str, own: str, f: Mapping[str, Any], whole: Mapping[str, Any], out: int
) -> tuple[Tower | None, list[str]]:
    width, patch, side = f["hidden_size"], f["patch_size"], f["image_size"]
    layers, merge = f["num_hidden_layers"], 1
    mixed = 3 * patch**2 * width
    shaped = own == "pixtral"
    positions = 0 if shaped else (side // patch) ** 2 * width
    if kind == "gemma3":
        tokens = whole.get("mm_tokens_per_image", 256)
        rows = round(tokens**0.5) if isinstance(tokens, int) else 0
        if not rows or rows**2 != tokens or (side // patch) % rows:
            return None, [
                f"mm_tokens_per_image: {tokens!r:.60}: expected a square below {side // patch} x {side // patch}"
            ]
        merge, projector = side // patch // rows, width * out
    elif kind == "mistral3":
        merge = whole.get("spatial_merge_size", 2)
        if type(merge) is not int or merge < 1:
            return None, [f"spatial_merge_size: expected an integer >= 1 (got {merge!r:.60})"]
        projector = (width * merge**2) * width + width * out + out * out
    else:
        projector = width * out + out * out
        behind = whole.get("vision_feature_layer", -1 if shaped else -2)
        if type(behind) is not int or not -layers <= behind <= layers:
            return None, [f"vision_feature_layer: {behind!r:.60}: expected one layer of {layers}"]
        layers = layers + behind + 1 if behind < 0 else behind
    return Tower(
        layers, width, f["num_attention_heads"], f["intermediate_size"], patch, shaped, merge,
        side=0 if shaped else side, longest=side if shaped else 0, breaks=shaped, projector=projector,
        further=mixed + positions,
    ), []  # fmt: skip
