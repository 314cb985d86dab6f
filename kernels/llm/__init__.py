"""Kernels of LLM engines: paged attention, and writes and copies of the KV cache, in torch and in Triton.

Begin with `choose` (`kernels_for`: the set of kernels for a device) and with the room `reference`, whose docstrings
define what each kernel does. The room `triton` does the same on GPUs; `tiles` chooses its tile sizes; `bench` measures.

Needs torch. Triton is imported only where its kernels are asked for.
"""

from __future__ import annotations

from .choose import BACKENDS, LLMKernels, kernels_for

__all__ = ["BACKENDS", "LLMKernels", "kernels_for"]
