"""BERT's encoder (Devlin et al. 2019; layers as in Vaswani et al. 2017: the norm comes after the sum)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Encoder", "EncoderLayer"]

EPS = 1e-12
"""Of BERT's layer norms, as in its authors' code."""


class EncoderLayer(nn.Module):
    """Self-attention of all positions, written as its two products, and a feed-forward block of four times the width.

    Parameters
    ----------
    hidden, heads : int
        Width, and heads that divide it.
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, hidden // heads
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.output = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden, eps=EPS)
        self.widen = nn.Linear(hidden, 4 * hidden)
        self.narrow = nn.Linear(4 * hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        """The layer, of ``[batch, positions, hidden]``."""
        q, k, v = (self._apart(part(x)) for part in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.width)
        seen = torch.matmul(scores.softmax(-1), v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.output(seen))
        return self.norm2(x + self.narrow(functional.gelu(self.widen(x))))

    def _apart(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, self.width)).transpose(1, 2)


class Encoder(nn.Module):
    """Layers one after another, of hidden states or, with a vocabulary, of tokens.

    Parameters
    ----------
    layers, hidden, heads : int
        Layers, their width and heads.
    seq : int
        Positions (of the embedding of positions, where there is one).
    vocab : int
        Rows of the embedding; 0: no embeddings, the module reads hidden states.
    """

    def __init__(self, *, layers: int = 12, hidden: int = 768, heads: int = 12, seq: int = 128, vocab: int = 0) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError(f"bert: heads: expected a divisor of hidden, {hidden} (got {heads})")
        self.tokens = nn.Embedding(vocab, hidden) if vocab else None
        self.positions = nn.Embedding(seq, hidden) if vocab else None
        self.norm = nn.LayerNorm(hidden, eps=EPS) if vocab else None
        self.layers = nn.Sequential(*(EncoderLayer(hidden, heads) for _ in range(layers)))

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states after the last layer, ``[batch, positions, hidden]``."""
        if self.tokens is not None and self.positions is not None and self.norm is not None:
            x = self.norm(self.tokens(x) + self.positions.weight)
        return self.layers(x)
