"""What the compiled engine knows: options of policies and columns of workloads that it simulates, by name.

Whoever gives the reference a new option or column need not think of this engine: whatever is not listed here, and is
not left at its default, is left to the reference.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

from ..memory.contiguous import ContiguousConfig
from ..policy.sarathi import SarathiConfig
from ..policy.vllm02_state import Vllm02Config
from ..policy.vllm_paper import VllmPaperConfig
from ..policy.vllm_v1.state import V1Config
from ..workload.requests import LLMTrace

__all__ = ["unknown"]

_POOL = ("block_size", "max_model_len", "max_num_seqs", "watermark")
_PAGED = (*_POOL, "num_gpu_blocks", "num_cpu_blocks", "max_num_batched_tokens", "preemption_mode", "prefixes")
KNOWN: dict[type[Any], frozenset[str]] = {
    V1Config: frozenset((
        *_POOL, "num_blocks", "max_num_batched_tokens", "enable_prefix_caching", "enable_chunked_prefill", "policy",
        "scheduler_reserve_full_isl", "long_prefill_token_threshold", "async_scheduling", "limit_alone",
        "sliding_window", "full_groups", "window_groups",
    )),
    VllmPaperConfig: frozenset(_PAGED),
    Vllm02Config: frozenset((*_PAGED, "max_paddings")),
    SarathiConfig: frozenset((*_POOL, "num_gpu_blocks", "chunk_size")),
    ContiguousConfig: frozenset(("num_slots", "max_model_len", "max_num_seqs")),
    LLMTrace: frozenset((
        "arrival", "prompt_tokens", "output_tokens", "best_of", "beam", "priority", "after", "think_s", "prefix_ids",
        "prefix_block", "shared_prefix", "kind", "classes", "clients",
    )),
}  # fmt: skip


def unknown(given: Any) -> str | None:
    """The first option or column that is set and that the compiled engine does not know; None where there is none."""
    known = KNOWN.get(type(given))
    if known is None:  # options of a policy that has no compiled form at all
        return None
    names = (f.name for f in fields(given) if f.name not in known and not _left(f, getattr(given, f.name)))
    return next(names, None)


def _left(field: Field[Any], value: Any) -> bool:
    """Whether an option has its default."""
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return value is default or (not hasattr(value, "dtype") and value == default)
