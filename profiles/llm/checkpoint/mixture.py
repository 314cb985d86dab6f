"""Fields of config.json files on mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ....errors import InputError
from .families import Family

__all__ = ["EXPERTS", "FIELDS", "expert_fields"]

EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
"""How many there are."""
EACH = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "moe_k")
FIELDS = (
    *EXPERTS,
    *EACH,
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "n_shared_experts",
    "moe_num_shared_experts",
    "first_k_dense_replace",
    "mlp_only_layers",
    "decoder_sparse_step",
    "moe_layer_freq",
    "interleave_moe_layer_step",
    "intermediate_size_mlp",
    "moe_layers",
    "moe_layer_start_index",
    "moe_layer_end_index",
    "moe_layer_interval",
)
"""What is read here."""


def expert_fields(
    config: Mapping[str, Any], where: str, layers: int, ffn: int | None, family: Family
) -> dict[str, int]:
    """Fields of `DecoderSpec` on experts, from a config.json; empty for a dense model.

    Understood are the names of Mixtral (``num_local_experts``, `intermediate_size` being the expert's), Qwen2- and
    Qwen3-MoE (``num_experts``, ``decoder_sparse_step``, ``mlp_only_layers``, ``shared_expert_intermediate_size``),
    DeepSeek and GLM (``n_routed_experts``, ``n_shared_experts``, ``first_k_dense_replace``, ``moe_layer_freq``),
    GPT-OSS (``experts_per_token``), Ernie (``moe_k``, ``moe_layer_interval``), and Llama 4
    (``interleave_moe_layer_step``, ``moe_layers``, ``intermediate_size_mlp``).

    Raises
    ------
    InputError
        If there are experts, but not how many a token goes to or how wide one is.
    """
    for names in (EXPERTS, EACH):
        said = {name: config[name] for name in names if config.get(name) is not None}
        if len(set(said.values())) > 1:
            both = " and ".join(f"{name} {value}" for name, value in said.items())
            raise InputError(f"{where}: {both}: the same thing, said twice")
    experts = _first(config, *EXPERTS)
    if experts is None and family.experts:
        others = ", ".join(EXPERTS[1:])
        raise InputError(f"{where}: fields missing in config.json: {EXPERTS[0]} (or {others}); 0 for none")
    if not experts or (experts == 1 and not family.experts):
        return {}
    per_token = _first(config, *EACH)
    width = _first(config, "moe_intermediate_size") or (None if family.experts == "own" else ffn)
    missing = [n for n, v in (("num_experts_per_tok", per_token), ("moe_intermediate_size", width)) if not v]
    if missing or per_token is None or width is None:
        raise InputError(f"{where}: fields missing in config.json: {', '.join(missing)} (it has {experts} experts)")
    shared = _first(config, "shared_expert_intermediate_size") or width * (
        _first(config, "n_shared_experts", "moe_num_shared_experts") or 0
    )
    if config.get("model_type") == "llama4_text":  # every layer with experts has a shared one of the same width
        shared = width
    sparse = _sparse(config, layers)
    dense = sum(not sparse(i) for i in range(layers))
    found = {"experts": experts, "experts_per_token": per_token, "moe_ffn": width, "shared_ffn": shared}
    wide = _first(config, "intermediate_size_mlp")
    return {**found, "dense_layers": dense, **({"ffn": wide} if wide else {})}


def _sparse(config: Mapping[str, Any], layers: int) -> Callable[[int], bool]:
    """Whether a layer has experts, by the rules of all families; a rule whose fields are absent excludes no layer."""
    listed: Any = config.get("moe_layers")
    if isinstance(listed, list) and listed:
        chosen = set(cast("list[Any]", listed))
        return lambda i: i in chosen
    without: Any = config.get("mlp_only_layers")
    plain = set(cast("list[Any]", without)) if isinstance(without, list) else set[Any]()
    first = _first(config, "first_k_dense_replace", "moe_layer_start_index") or 0
    last = _first(config, "moe_layer_end_index")
    last = layers - 1 if last is None or last < 0 else last
    step = _first(config, "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval") or 1
    every = _first(config, "moe_layer_freq") or 1
    return lambda i: i not in plain and first <= i <= last and (i + 1) % step == 0 and i % every == 0


def _first(config: Mapping[str, Any], *names: str) -> int | None:
    """The first of some fields that holds a whole number."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
