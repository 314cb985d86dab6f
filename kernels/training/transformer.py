"""GPT, as the zoo's graphs have it, parameter by parameter."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .parts import Projection, Table, at_least_float32

__all__ = ["GPT", "Attention", "Block", "Mlp"]


class Attention(nn.Module):
    """Multi-head self-attention, causal, with separate projections of queries, keys and values."""

    def __init__(self, hidden: int, heads: int, fused: bool = False) -> None:
        super().__init__()
        self.size, self.fused = hidden // heads, fused
        into = ("bsh,hnd->bsnd", (hidden, heads, self.size), hidden, (heads, self.size))
        self.q, self.k, self.v = Projection(*into), Projection(*into), Projection(*into)
        self.out = Projection("bsnd,ndh->bsh", (heads, self.size, hidden), hidden, (hidden,))

    def forward(self, x: Tensor) -> Tensor:
        """Attend."""
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.fused:
            heads_first = (t.transpose(1, 2) for t in (q, k, v))
            context = nn.functional.scaled_dot_product_attention(*heads_first, is_causal=True).transpose(1, 2)
            return self.out(context)
        scores = torch.einsum("bsnd,btnd->bnst", q, k) / math.sqrt(self.size)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        probabilities = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.out(torch.einsum("bnst,btnd->bsnd", probabilities, v))


class Mlp(nn.Module):
    """Two projections with a gelu between."""

    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.up = Projection("bsh,hf->bsf", (hidden, ffn), hidden, (ffn,))
        self.down = Projection("bsf,fh->bsh", (ffn, hidden), ffn, (hidden,))

    def forward(self, x: Tensor) -> Tensor:
        """Up, gelu, down."""
        return self.down(nn.functional.gelu(self.up(x)))


class Block(nn.Module):
    """Attention and a feed-forward block (``mlp`` or ``moe``), each with a norm before and a residual sum after."""

    def __init__(
        self, hidden: int, heads: int, feed_forward: nn.Module, role: str = "mlp", fused: bool = False
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, fused)
        self.norm2 = nn.LayerNorm(hidden)
        self.role = role
        self.add_module(role, feed_forward)

    def forward(self, x: Tensor) -> Tensor:
        """Both blocks."""
        x = self.attention(self.norm1(x)) + x
        return getattr(self, self.role)(self.norm2(x)) + x


class GPT(nn.Module):
    """A decoder of GPT's kind: learned positions, norms before the blocks, output tied to the embedding.

    Parameters
    ----------
    layers, hidden, heads, vocab, seq : int
        Shape of the model.
    ffn : int
        Hidden size of the MLP; 0: 4 x hidden.
    fused : bool
        Whether attention is one fused kernel.
    """

    def __init__(
        self, *, layers: int, hidden: int, heads: int, vocab: int, seq: int, ffn: int = 0, fused: bool = False
    ) -> None:
        super().__init__()
        self.embedding, self.position = Table(vocab, hidden), Table(seq, hidden)
        self.layers = nn.ModuleList(self.block(i, hidden, heads, ffn or 4 * hidden, fused) for i in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def block(self, i: int, hidden: int, heads: int, ffn: int, fused: bool) -> Block:
        """Layer `i`."""
        del i
        return Block(hidden, heads, Mlp(hidden, ffn), fused=fused)

    def logits(self, tokens: Tensor) -> Tensor:
        """Scores of the next token [batch, seq, vocab]."""
        x = self.embedding(tokens) + self.position.weight
        for layer in self.layers:
            x = layer(x)
        return torch.einsum("bsh,vh->bsv", self.norm(x), self.embedding.weight)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Mean cross entropy of the labels."""
        return nn.functional.cross_entropy(at_least_float32(self.logits(tokens)).flatten(0, 1), labels.flatten())
