"""Blocks of transformers, and the graph of GPT-3 that is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ....errors import InputError
from .builder import Builder, Model

__all__ = [
    "GPT", "Attention", "Heads", "Transformer", "add_positions", "attention", "block", "cross_entropy", "embed",
    "linear", "mlp", "norm", "residual",
]  # fmt: skip

Attention = Literal["matmuls", "fused"]


@dataclass(frozen=True, slots=True)
class Heads:
    """Shape of an attention block.

    Parameters
    ----------
    heads : int
        Query heads.
    size : int
        Size of one head.
    kv_heads : int
        Heads of keys and values; the query heads in groups share them. 0: as many as query heads.
    attention : {"matmuls", "fused"}
        Scores, softmax and context as operators of their own, or one fused kernel that never stores the scores.
    causal : bool
        Whether a position sees only those before it.
    rope : float
        Base of rotary position embeddings; 0: none.
    bias : bool
        Whether the projections have biases.
    """

    heads: int
    size: int
    kv_heads: int = 0
    attention: Attention = "matmuls"
    causal: bool = True
    rope: float = 0.0
    bias: bool = True

    def __post_init__(self) -> None:
        if self.attention not in ("matmuls", "fused"):
            raise InputError(f"attention: expected 'matmuls' or 'fused' (got {self.attention!r})")
        if self.heads < 1 or self.size < 1 or (self.kv_heads and self.heads % self.kv_heads):
            raise InputError(f"heads: expected a multiple of kv_heads {self.kv_heads} (got {self.heads})")


def linear(b: Builder, name: str, x: str, formula: str, *, bias: str = "", **sizes: int) -> str:
    """A projection ``name.weight`` and, where `bias` gives its dimensions, ``name.bias`` added to it."""
    weight = formula.split("->")[0].split(",")[1].split()
    b.parameter(f"{name}.weight", *(sizes[loop] for loop in weight))
    y = b.add(name, "contraction", formula, x, f"{name}.weight", saves=(0, 1))
    if not bias:
        return y
    out = formula.split("->")[1].strip()
    b.parameter(f"{name}.bias", *(sizes[loop] for loop in bias.split()))
    return b.add(f"{name}.add", "elementwise", f"{out}, {bias} -> {out}", y, f"{name}.bias", fn="add")


# 1e-5 is torch's default for layer norms.
def norm(b: Builder, name: str, x: str, hidden: int, *, fn: str = "layer", eps: float = 1e-5) -> str:
    """Layer norm (``fn="layer"``, weight and bias) or RMS norm (``fn="rms"``, weight) over the hidden dimension."""
    parameters = [b.parameter(f"{name}.{p}", hidden) for p in (("weight", "bias") if fn == "layer" else ("weight",))]
    formula = f"b s h{', h' * len(parameters)} -> b s h"
    return b.add(name, "norm", formula, x, *parameters, statistic="h", saves=(0, 1), fn=fn, eps=eps)


def attention(b: Builder, name: str, x: str, hidden: int, heads: Heads) -> str:
    """Projections of queries, keys and values, attention, and the output projection."""
    kv, group = heads.kv_heads or heads.heads, heads.heads // (heads.kv_heads or heads.heads)
    n = "n" if group == 1 else "n g"  # n: heads of keys and values; g: query heads that share one
    sizes = {"h": hidden, "n": kv, "g": group, "d": heads.size}
    has = heads.bias
    q = linear(b, f"{name}.q", x, f"b s h, h {n} d -> b s {n} d", bias=f"{n} d" if has else "", **sizes)
    k = linear(b, f"{name}.k", x, "b s h, h n d -> b s n d", bias="n d" if has else "", **sizes)
    v = linear(b, f"{name}.v", x, "b s h, h n d -> b s n d", bias="n d" if has else "", **sizes)
    if heads.rope:
        q = _rotated(b, f"{name}.q.rope", q, f"b s {n} d", heads.rope)
        k = _rotated(b, f"{name}.k.rope", k, "b s n d", heads.rope)
    scale = 1.0 / math.sqrt(heads.size)
    if heads.attention == "fused":
        context = b.add(
            f"{name}.core", "attention", f"b s {n} d, b t n d, b t n d -> b s {n} d", q, k, v,
            whole="t d", saves=(0, 1, 2, -1), causal=heads.causal, query="s", key="t", scale=scale,
        )  # fmt: skip
    else:
        scores = b.add(
            f"{name}.scores", "contraction", f"b s {n} d, b t n d -> b {n} s t", q, k, saves=(0, 1), scale=scale
        )
        probabilities = b.add(
            f"{name}.softmax", "softmax", f"b {n} s t -> b {n} s t", scores, statistic="t", saves=(-1,),
            causal=heads.causal, query="s", key="t",
        )  # fmt: skip
        context = b.add(
            f"{name}.context", "contraction", f"b {n} s t, b t n d -> b s {n} d", probabilities, v, saves=(0, 1)
        )
    return linear(b, f"{name}.out", context, f"b s {n} d, {n} d h -> b s h", bias="h" if has else "", **sizes)


def _rotated(b: Builder, name: str, x: str, dims: str, theta: float) -> str:
    return b.add(name, "elementwise", f"{dims} -> {dims}", x, whole="d", fn="rope", theta=theta, position="s")


def mlp(b: Builder, name: str, x: str, hidden: int, ffn: int, *, approximate: str = "none") -> str:
    """Two projections with a gelu between."""
    up = linear(b, f"{name}.up", x, "b s h, h f -> b s f", bias="f", h=hidden, f=ffn)
    active = b.add(f"{name}.gelu", "elementwise", "b s f -> b s f", up, saves=(0,), fn="gelu", approximate=approximate)
    return linear(b, f"{name}.down", active, "b s f, f h -> b s h", bias="h", h=hidden, f=ffn)


def residual(b: Builder, name: str, x: str, y: str) -> str:
    """The sum of a block's result and what it was made of."""
    return b.add(name, "elementwise", "b s h, b s h -> b s h", y, x, fn="add")


def embed(b: Builder, name: str, ids: str, rows: int, hidden: int) -> str:
    """Rows of ``name.weight``."""
    return b.add(name, "embedding", "v h, b s -> b s h", b.parameter(f"{name}.weight", rows, hidden), ids, saves=(1,))


def add_positions(b: Builder, name: str, x: str, seq: int, hidden: int) -> str:
    """Learned positions, one row of ``name.weight`` for each."""
    return b.add(name, "elementwise", "b s h, s h -> b s h", x, b.parameter(f"{name}.weight", seq, hidden), fn="add")


def cross_entropy(b: Builder, x: str, labels: str, dims: str, classes: str) -> str:
    """The mean cross entropy of all rows, in float32."""
    formula = f"{dims} {classes}, {dims} ->"
    return b.add(
        "loss", "loss", formula, x, labels, statistic=classes, saves=(0, 1), dtype="float32", fn="cross_entropy",
        reduction="mean",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class Transformer(Model):
    """What all models of attention blocks have.

    Parameters
    ----------
    hidden, heads : int
        Width, and heads of attention, which divide it.
    seq : int
        Positions of a sample.
    attention : {"matmuls", "fused"}
        See `Heads`.
    dtype : str
        Of parameters and activations.

    Raises
    ------
    InputError
        If the heads do not divide the width, or there is no such attention.
    """

    hidden: int
    heads: int
    seq: int
    attention: Attention = "matmuls"
    dtype: str = "float16"

    def __post_init__(self) -> None:
        if self.heads < 1 or self.hidden % self.heads:
            raise InputError(f"heads: expected a divisor of hidden {self.hidden} (got {self.heads})")
        self.attention_heads()

    def attention_heads(self) -> Heads:
        """Shape of its attention blocks."""
        return Heads(self.heads, self.hidden // self.heads, attention=self.attention)


@dataclass(frozen=True, kw_only=True, repr=False)
class GPT(Transformer):
    """GPT-2's and GPT-3's decoder: learned positions, norms before the blocks, output tied to the embedding.

    Parameters
    ----------
    layers, vocab : int
        Transformer layers, and words of the vocabulary; `seq` tokens make one sample.
    ffn : int
        Hidden size of the MLP; 0: 4 x hidden.
    hidden, heads, seq, attention, dtype
        As in `Transformer`.
    """

    layers: int
    vocab: int
    ffn: int = 0

    def write(self, b: Builder) -> tuple[int, str]:
        """See `Model`."""
        heads, hidden = self.attention_heads(), self.hidden
        ids, labels = b.input("tokens", self.seq), b.input("labels", self.seq)
        x = add_positions(b, "position", embed(b, "embedding", ids, self.vocab, hidden), self.seq, hidden)
        for i in range(self.layers):
            b.layer = i
            x = block(b, f"layers.{i}", x, hidden, heads, self.feed_forward(b, i))
        b.layer = -1
        x = norm(b, "norm", x, hidden)
        logits = b.add("head", "contraction", "b s h, v h -> b s v", x, "embedding.weight", saves=(0, 1))
        cross_entropy(b, logits, labels, "b s", "v")
        return self.seq, "tokens"

    def feed_forward(self, b: Builder, layer: int) -> Callable[[str, str], str]:
        """What writes the feed-forward block of a layer, given the layer's name and what it reads."""
        return lambda at, x: mlp(b, f"{at}.mlp", x, self.hidden, self.ffn or 4 * self.hidden)


def block(
    b: Builder, at: str, x: str, hidden: int, heads: Heads, feed_forward: Callable[[str, str], str], fn: str = "layer",
    eps: float = 1e-5,
) -> str:  # fmt: skip
    """Attention and a feed-forward block, each with a norm before and a residual sum after."""
    y = attention(b, f"{at}.attention", norm(b, f"{at}.norm1", x, hidden, fn=fn, eps=eps), hidden, heads)
    x = residual(b, f"{at}.residual1", x, y)
    y = feed_forward(at, norm(b, f"{at}.norm2", x, hidden, fn=fn, eps=eps))
    return residual(b, f"{at}.residual2", x, y)
