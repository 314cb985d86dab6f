"""Kernels of LLM engines: paged attention, KV writes and copies, in torch and in Triton.

Needs torch. Triton is imported only where its kernels are asked for.
"""

from __future__ import annotations

from .choose import BACKENDS, LLMKernels, kernels_for

__all__ = ["BACKENDS", "LLMKernels", "kernels_for"]
