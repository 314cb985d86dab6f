"""`adapter_of`: the adapter of a policy, by the kind of steps that it decides."""

from __future__ import annotations

from typing import Any

from .....errors import InputError
from .....simulator.llm.policy.catalogue import POLICIES, Policy
from .....simulator.llm.policy.work import work_02, work_v1
from .base import Adapter, Emitted, Finished, Outcome
from .paged import PagedAdapter
from .v1 import V1Adapter

__all__ = ["ADAPTERS", "Adapter", "Emitted", "Finished", "Outcome", "PagedAdapter", "V1Adapter", "adapter_of"]

ADAPTERS: dict[str, Any] = {"vllm-v1": V1Adapter, "sarathi": V1Adapter, "vllm-0.2": PagedAdapter}
"""Shipped policies that the engine runs: those with paged memory."""
_BY_WORK: dict[Any, Any] = {work_v1: V1Adapter, work_02: PagedAdapter}


def adapter_of(policy: Policy) -> Any:
    """What lets the engine run a policy, by the steps that it decides: shipped ones and others alike.

    Raises
    ------
    InputError
        If it decides other steps than these do.
    """
    found = _BY_WORK.get(policy.work)
    if found is None:
        name = next((n for n, p in POLICIES.items() if p is policy), "this one")
        raise InputError(f"policy: the engine runs {', '.join(ADAPTERS)}, and your own with such steps (got {name!r})")
    return found
