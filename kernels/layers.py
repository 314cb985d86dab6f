"""The layers of a Transformer, forward only. Each can hold one shard of itself (Megatron-LM's split).

A layer that is split over ``shard.size`` devices computes its share and then sums the shares with one `all_reduce`:
after attention, after the feed-forward block, in the embedding (vocabulary-parallel) and in the head.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .specs import N_LABELS, ModelSpec

__all__ = [
    "AllReduce",
    "Attention",
    "BertHead",
    "Embedding",
    "FeedForward",
    "LanguageHead",
    "Shard",
    "Weights",
]

AllReduce = Callable[[Tensor], Tensor]
"""Sums a tensor over the devices that share an operator and returns the sum (it may work in place)."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The share of each operator that this device holds.

    Parameters
    ----------
    rank, size : int
        Share `rank` of `size`.
    all_reduce : callable, optional
        Adds the shares up; needed exactly when `size` > 1.

    Raises
    ------
    ValueError
        If the rank is outside the size, or `all_reduce` is missing or superfluous.
    """

    rank: int = 0
    size: int = 1
    all_reduce: AllReduce | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"Shard: expected 0 <= op_rank < op_size (got {self.rank} of {self.size})")
        if (self.all_reduce is None) != (self.size == 1):
            raise ValueError(f"Shard: all_reduce is needed exactly when op_size > 1 (got op_size {self.size})")

    def slice(self, full: int) -> slice:
        """This device's share of `full` rows or columns; equal to within one."""
        return slice(full * self.rank // self.size, full * (self.rank + 1) // self.size)

    def add_up(self, partial: Tensor) -> Tensor:
        """The sum of the shares."""
        return partial if self.all_reduce is None else self.all_reduce(partial)


@dataclass(frozen=True, slots=True)
class Weights:
    """Source of one layer's weights: each is drawn whole from its own seeded stream and then cut.

    Whatever the partition, a weight has the same values. They are drawn on the CPU, so they are the same on
    every device; on the ``meta`` device nothing is drawn.
    """

    seed: int
    layer: int
    device: str
    dtype: torch.dtype

    def draw(self, name: str, shape: tuple[int, ...], std: float, cut: tuple[slice, ...] = ()) -> nn.Parameter:
        """Weight `name`: uniform with standard deviation `std`, of full `shape`, of which `cut` is kept."""
        if self.device == "meta":
            full = torch.empty(shape, dtype=self.dtype, device="meta")
        else:
            digest = hashlib.sha256(f"{self.seed}/{self.layer}/{name}".encode()).digest()
            stream = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
            bound = math.sqrt(3.0) * std  # the standard deviation of a uniform law on ±bound is bound / √3
            full = torch.empty(shape, dtype=torch.float32).uniform_(-bound, bound, generator=stream)
        kept = full[cut] if cut else full
        return nn.Parameter(kept.to(self.device, self.dtype).contiguous().clone(), requires_grad=False)

    def constant(self, value: float, size: int) -> nn.Parameter:
        """A vector of equal values (norm scales and shifts)."""
        return nn.Parameter(torch.full((size,), value, dtype=self.dtype, device=self.device), requires_grad=False)


class Norm(nn.Module):
    """Layer norm over the hidden size; replicated."""

    def __init__(self, weights: Weights, hidden: int) -> None:
        super().__init__()
        self.scale, self.shift = weights.constant(1.0, hidden), weights.constant(0.0, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.scale.shape, self.scale, self.shift)


class Embedding(nn.Module):
    """Token (vocabulary-parallel: each device holds its rows) and position embeddings, tokens -> hidden."""

    def __init__(self, spec: ModelSpec, weights: Weights, shard: Shard) -> None:
        super().__init__()
        self.shard = shard
        rows = shard.slice(spec.vocab)
        self.first_row = rows.start
        self.tokens = weights.draw("tokens", (spec.vocab, spec.hidden), 1.0, (rows,))
        self.positions = weights.draw("positions", (spec.seq_len, spec.hidden), 1.0)

    def forward(self, tokens: Tensor) -> Tensor:
        if self.shard.size == 1:
            return F.embedding(tokens, self.tokens) + self.positions
        local = tokens - self.first_row
        mine = (local >= 0) & (local < self.tokens.shape[0])
        found = F.embedding(torch.where(mine, local, 0), self.tokens) * mine.unsqueeze(-1)
        return self.shard.add_up(found) + self.positions


class Attention(nn.Module):
    """Multi-head self-attention; heads split over the devices, one all-reduce after the output projection."""

    def __init__(self, spec: ModelSpec, weights: Weights, shard: Shard) -> None:
        super().__init__()
        self.shard, self.causal = shard, spec.family != "bert"
        self.heads = spec.heads // shard.size
        h, mine = spec.hidden, shard.slice(spec.hidden)
        std, mine_rows = h**-0.5, (slice(None), mine)
        self.w_qkv = weights.draw("qkv", (3, h, h), std, mine_rows)
        self.b_qkv = weights.draw("qkv bias", (3, h), 0.02, mine_rows)
        self.w_out = weights.draw("out", (h, h), std, mine_rows)
        self.b_out = weights.draw("out bias", (h,), 0.02)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        width = self.w_qkv.shape[1]
        qkv = F.linear(x, self.w_qkv.view(3 * width, -1), self.b_qkv.view(-1))
        q, k, v = qkv.view(batch, seq, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        partial = F.linear(mixed.transpose(1, 2).reshape(batch, seq, width), self.w_out)
        return self.shard.add_up(partial) + self.b_out


class FeedForward(nn.Module):
    """Two linear layers with GELU, split by columns, then by rows; one all-reduce after the second."""

    def __init__(self, spec: ModelSpec, weights: Weights, shard: Shard) -> None:
        super().__init__()
        self.shard = shard
        h, f, mine = spec.hidden, spec.ffn, shard.slice(spec.ffn)
        self.w_in = weights.draw("ffn in", (f, h), h**-0.5, (mine,))
        self.b_in = weights.draw("ffn in bias", (f,), 0.02, (mine,))
        self.w_out = weights.draw("ffn out", (h, f), f**-0.5, (slice(None), mine))
        self.b_out = weights.draw("ffn out bias", (h,), 0.02)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.gelu(F.linear(x, self.w_in, self.b_in))
        return self.shard.add_up(F.linear(inner, self.w_out)) + self.b_out


class BertHead(nn.Module):
    """Pooler and classifier on the first token, hidden -> (batch, labels); split as FeedForward."""

    def __init__(self, spec: ModelSpec, weights: Weights, shard: Shard) -> None:
        super().__init__()
        self.shard = shard
        h, mine = spec.hidden, shard.slice(spec.hidden)
        self.w_pool = weights.draw("pool", (h, h), h**-0.5, (mine,))
        self.w_label = weights.draw("label", (N_LABELS, h), h**-0.5, (slice(None), mine))
        self.b_label = weights.draw("label bias", (N_LABELS,), 0.02)

    def forward(self, x: Tensor) -> Tensor:
        pooled = torch.tanh(F.linear(x[:, 0], self.w_pool))
        return self.shard.add_up(F.linear(pooled, self.w_label)) + self.b_label


class LanguageHead(nn.Module):
    """Best next token at every position, hidden -> (batch, tokens, 2) float32: token id and its logit.

    Vocabulary-parallel: each device finds the best of its own rows, and only these pairs cross the link.
    """

    def __init__(self, spec: ModelSpec, weights: Weights, shard: Shard) -> None:
        super().__init__()
        self.shard = shard
        rows = shard.slice(spec.vocab)
        self.first_row = rows.start
        self.norm = Norm(weights, spec.hidden)
        self.w_vocab = weights.draw("vocab", (spec.vocab, spec.hidden), spec.hidden**-0.5, (rows,))

    def forward(self, x: Tensor) -> Tensor:
        logit, token = F.linear(self.norm(x), self.w_vocab).max(dim=-1)
        best = torch.stack((token.float() + self.first_row, logit.float()), dim=-1)
        if self.shard.size == 1:
            return best
        pairs = best.new_zeros((self.shard.size, *best.shape))
        pairs[self.shard.rank] = best
        pairs = self.shard.add_up(pairs)
        winner = pairs[..., 1].argmax(dim=0)
        return pairs.gather(0, winner[None, ..., None].expand(1, *best.shape)).squeeze(0)
