"""Further options of a case's scheduler: which there may be, and what they may say."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ...errors import InputError
from ...simulator.llm import POLICIES
from ...simulator.llm.plan.entries import MEMORY_OPTION
from ...simulator.llm.policy.catalogue import near, policy_config
from .case import EngineCase

__all__ = ["check_scheduler"]

SAID_ELSEWHERE = (
    "block_size", "max_num_batched_tokens", "chunk_size", "max_num_seqs", "enable_chunked_prefill",
    "enable_prefix_caching", "num_blocks", "num_gpu_blocks", "num_slots", "max_model_len", "sliding_window",
    "full_groups", "window_groups",
)  # fmt: skip
"""Options of schedulers that a case's other fields, the model or the devices decide."""


def check_scheduler(engine: EngineCase) -> None:
    """See that an engine's further options are its scheduler's, and have values that it takes.

    Raises
    ------
    InputError
        On one that is not, or that is said elsewhere.
    """
    kind, pp = POLICIES[engine.policy].config, engine.pipeline_parallel_size
    known = [f.name for f in fields(kind) if f.name not in SAID_ELSEWHERE]
    for name in engine.scheduler:
        if name in SAID_ELSEWHERE:
            raise InputError(f"{name}: the engine, the model or the devices say it; leave it out")
        if name not in known:
            raise InputError(f"{name}: no option of {engine.policy}{near(name, known)}")
    if engine.scheduler.get("pipeline_parallel_size", 1) not in (1, pp):
        raise InputError(f"pipeline_parallel_size: expected that of the engine, {pp}, or 1")
    memory = {MEMORY_OPTION.get(engine.policy, "num_slots"): 10**6}  # as if there were enough
    # The model's length is not looked at here: any that the other options take will do.
    said: dict[str, Any] = {"max_num_seqs": engine.max_num_seqs, "block_size": engine.block_size, "max_model_len": 1}
    said |= {"max_num_batched_tokens": engine.max_num_batched_tokens}
    said |= {name: getattr(engine, name) for name in ("enable_chunked_prefill", "enable_prefix_caching")}
    stated = {name: value for name, value in said.items() if name in {f.name for f in fields(kind)}}
    policy_config(kind, {**memory, **stated, **engine.scheduler})
