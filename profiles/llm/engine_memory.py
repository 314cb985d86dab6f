"""What an engine's memory holds beside weights and KV blocks, and the budgets that vLLM takes where nobody says."""

from __future__ import annotations

from .decoder import DecoderSpec

__all__ = ["RUNTIME_BYTES", "budgets", "other_bytes"]

GIB = 2**30

RUNTIME_BYTES = 551 * 2**20
"""The device's context and libraries, outside the engine's own allocations."""


def budgets(memory_bytes: int, device: str) -> tuple[int, int]:
    """``max_num_batched_tokens`` and ``max_num_seqs`` of vLLM's API server where they are not given."""
    if memory_bytes >= 160 * GIB:
        return 16384, 1024
    if memory_bytes >= 70 * GIB and "a100" not in device.lower():
        return 8192, 1024
    return 2048, 256


def other_bytes(model: DecoderSpec, tp: int, batched: int, seqs: int, *, bf16_ends: bool, nccl: int = 0) -> int:
    """Memory of a rank beside weights and KV, as vLLM measures it in a trial step before it lays out KV memory.

    The runtime, NCCL's buffers, and the larger of two peaks in bf16: one layer's activations of `batched` tokens (its
    input and residual, both halves of the gated layer and their product), or the logits of `seqs` sequences with their
    copy in fp32. Where weights are quantised, embedding and head stay in bf16 (`bf16_ends`).
    """
    wide = 3 if model.gated else 2
    layer = batched * (2 * model.hidden * 2 + wide * -(-model.ffn // tp) * 2)
    logits = seqs * model.vocab * (2 + 4)
    ends = (model.embedding_weights + model.head_weights) // tp if bf16_ends else 0
    return RUNTIME_BYTES + nccl + max(layer, logits) + ends
