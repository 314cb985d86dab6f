"""Engine arguments of a recorded run: what was given, what the engine made of it, under the names of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["engine_arguments"]

PLACES = ("engine_kwargs", "engine_args", "engine_arguments", "vllm_args")
"""Where runs say their arguments."""

NAMES = {
    "tp": "tensor_parallel_size",
    "tp_size": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dp_size": "data_parallel_size",
    "dcp": "decode_context_parallel_size",
    "ep": "enable_expert_parallel",
    "expert_parallel": "enable_expert_parallel",
    "gpu_memory_util": "gpu_memory_utilization",
    "gpu_util": "gpu_memory_utilization",
    "max_batched_tokens": "max_num_batched_tokens",
    "max_seqs": "max_num_seqs",
    "max_seq_len": "max_model_len",
    "num_gpu_blocks": "num_gpu_blocks_override",
    "cache_dtype": "kv_cache_dtype",
}
"""Short and older names -> vLLM's."""

RESOLVED = {
    "scheduler_config": (
        "max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "long_prefill_token_threshold",
        "async_scheduling", "policy",
    ),
    "cache_config": ("block_size", "gpu_memory_utilization", "num_gpu_blocks", "cache_dtype", "enable_prefix_caching"),
    "parallel_config": (
        "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel",
        "decode_context_parallel_size", "disable_custom_all_reduce",
    ),
    "model_config": ("max_model_len", "quantization", "enforce_eager"),
}  # fmt: skip
"""What is read of a run's ``resolved_config`` where its arguments leave it open."""


def engine_arguments(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments by vLLM's names: those given, then what the run says that the engine resolved.

    Dashes become underscores; numbers in quotes become numbers; the resolved ones are ``kv_cache`` (number and size of
    blocks, share of memory) and ``resolved_config``.

    Returns
    -------
    dict, or None where the run says no arguments.
    """
    given: Any = next((meta[name] for name in PLACES if isinstance(meta.get(name), dict)), None)
    if given is None:
        return None
    found = _named(cast("dict[str, Any]", given))
    cache: Any = meta.get("kv_cache")
    if isinstance(cache, dict):
        said = cast("dict[str, Any]", cache)
        kept = {n: said.get(n) for n in ("num_gpu_blocks", "block_size", "gpu_memory_utilization")}
        _fill(found, _named(kept))
    resolved: Any = meta.get("resolved_config")
    if isinstance(resolved, dict):
        for part, names in RESOLVED.items():
            inner: Any = cast("dict[str, Any]", resolved).get(part)
            if isinstance(inner, dict):
                said = cast("dict[str, Any]", inner)
                _fill(found, _named({name: said.get(name) for name in names}))
    return found


def _fill(found: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if value is not None and found.get(name) is None:
            found[name] = value


def _named(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = key.lstrip("-").replace("-", "_")
        found[NAMES.get(name, name)] = _number(value)
    return found


def _number(value: Any) -> Any:
    """Numbers and truths in quotes, as command lines give them."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.lower() in ("true", "false", "none", "null"):
        return {"true": True, "false": False}.get(text.lower())
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return value
