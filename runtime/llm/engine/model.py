"""The decoder's forward pass over a batch, reading and writing a paged KV cache."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from ....kernels.llm import LLMKernels
from .batch import Batch
from .cache import KVCache
from .layers import (
    act_fn,
    activation_of,
    down_proj,
    embed,
    layernorm,
    lm_head,
    o_proj,
    qkv_proj,
    rotary_emb,
    rotary_table,
    up_proj,
)
from .weights import Weights

__all__ = ["Attend", "Decoder", "PagedAttention"]


class Attend(Protocol):
    """Attention of a batch over one layer's cache, the new keys and values written first."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, batch: Batch) -> Tensor: ...


class PagedAttention:
    """Attention where every sequence's keys and values are all on this process.

    Decodes go to the paged decode kernel, pieces of prompts to the prefill kernel, in one batch.

    Parameters
    ----------
    kernels : LLMKernels
        Which kernels.
    scale : float
        Factor on the scores.
    """

    def __init__(self, kernels: LLMKernels, scale: float) -> None:
        self.kernels, self.scale = kernels, scale

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, batch: Batch) -> Tensor:
        """See `Attend`."""
        kernels, n = self.kernels, batch.layout.decodes
        kernels.reshape_and_cache(k, v, keys, values, batch.slots)
        if not batch.layout.chunks:
            return kernels.paged_decode(q, keys, values, batch.tables, batch.contexts, self.scale)
        chunks = kernels.prefill_attention(
            q[n:], keys, values, batch.tables[n:], batch.starts, batch.contexts[n:], self.scale
        )
        if not n:
            return chunks
        decodes = kernels.paged_decode(q[:n], keys, values, batch.tables[:n], batch.contexts[:n], self.scale)
        return torch.cat((decodes, chunks))


class Decoder:
    """A decoder on one process.

    Parameters
    ----------
    weights : Weights
        Its weights, or a tensor-parallel share of them.
    attend : Attend
        Attention over the cache.
    longest : int
        Tokens of the longest sequence.
    add_up : callable, optional
        Sums a tensor over the tensor-parallel ranks.
    join : callable, optional
        Puts the ranks' logits side by side, where the head is split.
    """

    def __init__(
        self,
        weights: Weights,
        attend: Attend,
        longest: int,
        *,
        add_up: Callable[[Tensor], Tensor] | None = None,
        join: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        spec, part = weights.spec, weights.part
        self.weights, self.attend, self.add_up, self.join = weights, attend, add_up, join
        self.heads, self.kv_heads = part.heads(spec), part.kv_heads(spec)
        self.activation = activation_of(spec)
        self.rotary = None
        if not spec.learned_positions:
            table = weights.embedding
            self.rotary = rotary_table(longest, spec.head_dim, table.device, table.dtype)

    @torch.inference_mode()
    def logits(self, batch: Batch, cache: KVCache) -> Tensor:
        """Logits of the rows that a batch asks for, shape (samples, vocab)."""
        x = self.hidden(batch, cache)
        logits = lm_head(layernorm(x[batch.rows], self.weights.norm), self.weights)
        return logits if self.join is None else self.join(logits)

    @torch.inference_mode()
    def hidden(self, batch: Batch, cache: KVCache) -> Tensor:
        """Run the layers; shape (tokens, hidden)."""
        weights, spec, turned = self.weights, self.weights.spec, self.heads + self.kv_heads
        x = embed(weights, batch.tokens, batch.positions)
        cos = sin = None
        if self.rotary is not None:
            cos, sin = self.rotary[0][batch.positions], self.rotary[1][batch.positions]
        for layer, (keys, values) in zip(weights.layers, cache.layers, strict=True):
            qkv = qkv_proj(layernorm(x, layer.attention_norm), layer, spec.head_dim)
            qk, v = qkv.split((turned, self.kv_heads), 1)
            if cos is not None and sin is not None:
                qk = rotary_emb(qk, cos, sin)
            q, k = qk.split((self.heads, self.kv_heads), 1)
            attended = self.attend(q, k, v, keys, values, batch)
            x = x + self._sum(o_proj(attended.reshape(x.shape[0], -1), layer))
            inner = act_fn(up_proj(layernorm(x, layer.mlp_norm), layer), self.activation)
            x = x + self._sum(down_proj(inner, layer))
        return x

    def _sum(self, x: Tensor) -> Tensor:
        return x if self.add_up is None else self.add_up(x)
