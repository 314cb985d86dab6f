"""Name of a policy -> what lets the engine run it."""

from __future__ import annotations

from typing import Any

from .adapter import Adapter, Emitted, Finished, Outcome
from .adapter_paged import PagedAdapter
from .adapter_v1 import V1Adapter

__all__ = ["ADAPTERS", "Adapter", "Emitted", "Finished", "Outcome", "PagedAdapter", "V1Adapter"]

ADAPTERS: dict[str, Any] = {"vllm-v1": V1Adapter, "sarathi": V1Adapter, "vllm-0.2": PagedAdapter}
"""Policies that the engine runs: those with paged memory."""
