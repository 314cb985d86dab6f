"""Precisions that a checkpoint states in its config.json: of its weights, and of the KV cache that it has scales for.

Weights: ``quantization_config`` (or as older tools call it) with a ``quant_method`` or ModelOpt's ``quant_algo``. KV
cache: what ``kv_cache_scheme``, ``kv_cache_quant_algo`` or ``kv_cache_dtype`` say, inside or beside it; ``auto`` and
nothing leave it in 16 bits, as vLLM's ``--kv-cache-dtype auto`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["FIELDS", "read_precisions"]

WEIGHTS = ("quantization_config", "compression_config", "quantization", "quant_config")
CACHE = ("kv_cache_scheme", "kv_cache_dtype", "kv_cache_quant_algo", "kv_cache_quantization")
FIELDS = (*WEIGHTS, *CACHE)
"""What is read here."""
PLAIN = ("auto", "none", "float16", "bfloat16", "fp16", "bf16", "half")
"""Words of a KV cache in 16 bits."""
NAMES = {
    "fp8": "fp8", "fbgemm_fp8": "fp8", "fp8_per_channel_per_token": "fp8", "fp8_pb_wo": "fp8_block", "nvfp4": "nvfp4",
    "mxfp4": "int4_wo", "awq": "int4_wo", "w4a16_awq": "int4_wo", "gptq": "int4_wo", "awq_marlin": "int4_wo",
    "gptq_marlin": "int4_wo",
}  # fmt: skip
"""``quant_method`` or ``quant_algo`` -> the cost model's name; those of 4 bits for weights alone cost alike."""


def read_precisions(config: Mapping[str, Any]) -> tuple[tuple[str, str], list[str], list[str]]:
    """Precisions by the cost model's names, empty where nothing is said; fields that were read; what is wrong."""
    there = [name for name in FIELDS if name in config]
    weights, cache, wrong = "", "", list[str]()
    for name in there:
        value: Any = config[name]
        if value is None or value == {} or value == "":
            continue
        if name in CACHE:
            found = _cache(value)
        else:
            inner = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {"quant_method": value}
            inner = cast("Mapping[str, Any]", inner.get("quantization") or inner)
            found = _weights(inner)
            weights = found or weights
            scheme = next((inner[key] for key in CACHE if inner.get(key) is not None), None)
            cache = (_cache(scheme) or "") if scheme is not None else cache
        if found is None:
            wrong.append(f"{name}: {' '.join(repr(config[name]).split()):.60}: a precision that is not known here")
        elif name in CACHE:
            cache = found or cache
    return (weights, cache), there, wrong


def _weights(said: Mapping[str, Any]) -> str | None:
    """Of the weights; None if it is not known."""
    method = str(said.get("quant_method") or "").lower()
    algo = str(said.get("quant_algo") or "").lower()
    bits = said.get("bits") or said.get("w_bit")
    if method == "compressed-tensors" or (not method and "config_groups" in said):
        return _groups(said)
    if method in ("fp8", "") and said.get("weight_block_size"):
        return "fp8_block"
    if said.get("load_in_4bit") or said.get("load_in_8bit"):
        return "int4_wo" if said.get("load_in_4bit") else "int8_wo"
    if bits in (4, 8) and method not in ("fp8",):
        return "int4_wo" if bits == 4 else "int8_wo"
    return NAMES.get(algo or method) or NAMES.get(method)


def _groups(said: Mapping[str, Any]) -> str | None:
    """Compressed tensors: bits and types of weights, and of activations where these are quantised, too."""
    groups: Any = said.get("config_groups")
    first: Any = next(iter(cast("dict[str, Any]", groups).values()), None) if isinstance(groups, Mapping) else None
    group = cast("Mapping[str, Any]", first) if isinstance(first, Mapping) else dict[str, Any]()
    weights: Any = group.get("weights")
    if not isinstance(weights, Mapping):
        return None
    w = cast("Mapping[str, Any]", weights)
    inputs: Any = group.get("input_activations")
    bits, kind = w.get("num_bits"), w.get("type")
    if kind == "float" and bits == 8:
        return "fp8_block" if w.get("strategy") == "block" else "fp8"
    if kind == "float" and bits == 4:
        return "nvfp4"
    if kind == "int" and bits in (4, 8) and not inputs:
        return "int4_wo" if bits == 4 else "int8_wo"
    return None


def _cache(value: Any) -> str | None:
    """Of the KV cache: empty for 16 bits, None if it is not known."""
    if isinstance(value, Mapping):
        said = cast("Mapping[str, Any]", value)
        return "fp8" if said.get("num_bits") == 8 and said.get("type", "float") == "float" else None
    word = str(value).lower()
    return "fp8" if word.startswith(("fp8", "float8")) else "" if word in PLAIN else None
