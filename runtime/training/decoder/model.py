"""The decoder, or a chunk of its layers, as a torch module: on one device, before anything is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from .config import Shape
from .experts import Experts

__all__ = ["Attention", "Chunk", "Layer", "Mlp", "causal"]

Core = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Queries, keys and values (samples, heads, tokens, width) to what attention reads, causally."""


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of all tokens, those of one rank."""
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


class Attention(nn.Module):
    """Causal self-attention with grouped queries.

    `core` is exchanged where tokens are cut over ranks; `positions` are those of the rank's tokens in the sequence.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.width, self.rotary, self.theta = shape.head_dim, shape.gated, shape.theta
        bias = not shape.gated
        self.q = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias)
        self.k = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias)
        self.v = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias)
        self.o = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias)
        self.core: Core = causal
        self.positions: Sequence[int] = range(shape.seq)
        self.again = False  # whether backward computes the core again

    def forward(self, x: Tensor) -> Tensor:
        """(samples, tokens, hidden) to the same."""
        q, k, v = (self._heads(one(x)) for one in (self.q, self.k, self.v))
        if self.rotary:
            q, k = self._turned(q), self._turned(k)
        core = self.core
        read = checkpoint(core, q, k, v, use_reentrant=False) if self.again else core(q, k, v)
        return self.o(read.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.width)).transpose(1, 2)

    def _turned(self, x: Tensor) -> Tensor:
        """Rotary positions, of the halves of a head (as in `simulator`'s operator ``rope``)."""
        half = self.width // 2
        rates = self.theta ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
        places = torch.tensor(list(self.positions), device=x.device, dtype=torch.float64)
        angles = torch.outer(places, rates)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, two = x[..., :half], x[..., half:]
        return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)


class Mlp(nn.Module):
    """SwiGLU, or GELU with biases."""

    def __init__(self, hidden: int, inner: int, gated: bool) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, inner, False) if gated else None
        self.up = nn.Linear(hidden, inner, not gated)
        self.down = nn.Linear(inner, hidden, not gated)

    def forward(self, x: Tensor) -> Tensor:
        """(…, hidden) to the same."""
        up = self.up(x)
        return self.down(functional.gelu(up) if self.gate is None else functional.silu(self.gate(x)) * up)


class Layer(nn.Module):
    """Norm, attention, norm, MLP or experts, each added to what it reads."""

    def __init__(self, shape: Shape, mixed: bool) -> None:
        super().__init__()
        norm = _norm(shape)
        self.norm1, self.attention, self.norm2 = norm(), Attention(shape), norm()
        self.mlp: nn.Module = Experts(shape) if mixed else Mlp(shape.hidden, shape.ffn, shape.gated)
        self.again = False  # whether backward computes the layer again

    def forward(self, x: Tensor) -> Tensor:
        """(samples, tokens, hidden) to the same."""
        return checkpoint(self._once, x, use_reentrant=False) if self.again else self._once(x)

    def _once(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Chunk(nn.Module):
    """Some layers of a decoder in a row: the first chunk with the embedding, the last with norm and output layer.

    Parameters have the same names in every cut: ``layers.7.attention.q.weight`` is the eighth layer's everywhere.

    Parameters
    ----------
    shape : Shape
        The whole decoder.
    layers : sequence of int
        Which of its layers; none, where the embedding or the output layer is a chunk's whole share.
    first, last : bool
        Whether it is the first chunk, the last one.
    """

    def __init__(self, shape: Shape, layers: Sequence[int], first: bool = True, last: bool = True) -> None:
        super().__init__()
        self.first, self.last = first, last
        self.embedding = nn.Embedding(shape.vocab, shape.hidden) if self.first else None
        self.place = nn.Embedding(shape.seq, shape.hidden) if self.first and not shape.gated else None
        self.layers = nn.ModuleDict({str(k): Layer(shape, shape.experts > 0 and k not in shape.dense) for k in layers})
        self.norm = _norm(shape)() if self.last else None
        self.output = nn.Linear(shape.hidden, shape.vocab, bias=False) if self.last else None
        self.tied = shape.tied
        self.positions: Sequence[int] = range(shape.seq)
        self.tie()

    def tie(self) -> None:
        """Make one parameter of the embedding and the output layer, where the chunk has both."""
        if self.tied and self.embedding is not None and self.output is not None:
            self.output.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        """Tokens, or what the chunk before makes, to logits, or to what the next one reads."""
        if self.embedding is not None:
            tokens, x = x, self.embedding(x)
            if self.place is not None:
                places = torch.tensor(list(self.positions), device=tokens.device)
                x = x + self.place(places.expand_as(tokens))
        for layer in self.layers.values():
            x = layer(x)
        if self.norm is not None and self.output is not None:
            x = self.output(self.norm(x))
        return x


def _norm(shape: Shape) -> Callable[[], nn.Module]:
    kind = nn.RMSNorm if shape.gated else nn.LayerNorm
    return lambda: kind(shape.hidden, eps=1e-5)
