"""Graphs of other language models: BERT, Llama, and GShard's mixture of experts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ....errors import InputError
from .builder import Builder
from .transformer import (
    GPT,
    Heads,
    Transformer,
    add_positions,
    attention,
    block,
    cross_entropy,
    embed,
    linear,
    mlp,
    norm,
    residual,
)

__all__ = ["BERT", "Llama", "MoE"]


@dataclass(frozen=True, kw_only=True, repr=False)
class BERT(Transformer):
    """BERT's encoder with its masked-language-model head: norms after the blocks, token types, decoder tied.

    The loss is taken of every position; the next-sentence head and the pooler are left out.

    Parameters
    ----------
    layers, vocab : int
        Transformer layers, and words of the vocabulary.
    hidden, heads, seq, attention, dtype
        As in `Transformer`.
    """

    layers: int
    vocab: int

    def write(self, b: Builder) -> tuple[int, str]:
        """See `Model`."""
        heads, hidden, seq = replace(self.attention_heads(), causal=False), self.hidden, self.seq
        ids, kinds, labels = b.input("tokens", seq), b.input("segments", seq), b.input("labels", seq)
        x = add_positions(b, "position", embed(b, "embedding", ids, self.vocab, hidden), seq, hidden)
        x = residual(b, "segment.add", x, embed(b, "segment", kinds, 2, hidden))
        # BERT's own `layer_norm_eps`, here and below.
        x = norm(b, "embedding.norm", x, hidden, eps=1e-12)
        for i in range(self.layers):
            b.layer = i
            x = _after(b, f"layers.{i}", x, hidden, heads)
        b.layer = -1
        x = linear(b, "head.dense", x, "b s h, h m -> b s m", bias="m", h=hidden, m=hidden)
        x = b.add("head.gelu", "elementwise", "b s h -> b s h", x, saves=(0,), fn="gelu", approximate="none")
        x = norm(b, "head.norm", x, hidden, eps=1e-12)
        x = b.add("head", "contraction", "b s h, v h -> b s v", x, "embedding.weight", saves=(0, 1))
        x = b.add("head.add", "elementwise", "b s v, v -> b s v", x, b.parameter("head.bias", self.vocab), fn="add")
        cross_entropy(b, x, labels, "b s", "v")
        return seq, "tokens"


def _after(b: Builder, at: str, x: str, hidden: int, shape: Heads) -> str:
    y = residual(b, f"{at}.residual1", x, attention(b, f"{at}.attention", x, hidden, shape))
    x = norm(b, f"{at}.norm1", y, hidden, eps=1e-12)
    y = residual(b, f"{at}.residual2", x, mlp(b, f"{at}.mlp", x, hidden, 4 * hidden))
    return norm(b, f"{at}.norm2", y, hidden, eps=1e-12)


@dataclass(frozen=True, kw_only=True, repr=False)
class Llama(Transformer):
    """Llama: RMS norms, rotary positions, gated MLP (SwiGLU), no biases, output not tied.

    Parameters
    ----------
    layers, ffn, vocab : int
        Transformer layers, hidden size of the MLP, words of the vocabulary.
    kv_heads : int
        Heads of keys and values; fewer than `heads` is grouped-query attention. 0: as many.
    theta : float
        Base of the rotary positions.
    hidden, heads, seq, attention, dtype
        As in `Transformer`.
    """

    layers: int
    ffn: int
    vocab: int
    kv_heads: int = 0
    theta: float = 10000.0
    dtype: str = "bfloat16"

    def attention_heads(self) -> Heads:
        """Shape of its attention blocks."""
        size = self.hidden // self.heads
        return Heads(self.heads, size, self.kv_heads, self.attention, rope=self.theta, bias=False)

    def write(self, b: Builder) -> tuple[int, str]:
        """See `Model`."""
        heads, hidden, ffn = self.attention_heads(), self.hidden, self.ffn
        ids, labels = b.input("tokens", self.seq), b.input("labels", self.seq)
        x = embed(b, "embedding", ids, self.vocab, hidden)
        for i in range(self.layers):
            b.layer, at = i, f"layers.{i}"
            # Llama 1's `rms_norm_eps`; Llama 2 has 1e-5, which changes no cost.
            x = block(b, at, x, hidden, heads, lambda at, y: _gated(b, f"{at}.mlp", y, hidden, ffn), fn="rms", eps=1e-6)
        b.layer = -1
        x = norm(b, "norm", x, hidden, fn="rms", eps=1e-6)
        logits = linear(b, "head", x, "b s h, v h -> b s v", h=hidden, v=self.vocab)
        cross_entropy(b, logits, labels, "b s", "v")
        return self.seq, "tokens"


def _gated(b: Builder, name: str, x: str, hidden: int, ffn: int) -> str:
    gate = linear(b, f"{name}.gate", x, "b s h, h f -> b s f", h=hidden, f=ffn)
    up = linear(b, f"{name}.up", x, "b s h, h f -> b s f", h=hidden, f=ffn)
    active = b.add(f"{name}.silu", "elementwise", "b s f -> b s f", gate, saves=(0,), fn="silu")
    product = b.add(f"{name}.mul", "elementwise", "b s f, b s f -> b s f", active, up, saves=(0, 1), fn="mul")
    return linear(b, f"{name}.down", product, "b s f, f h -> b s h", h=hidden, f=ffn)


@dataclass(frozen=True, kw_only=True, repr=False)
class MoE(GPT):
    """GPT whose every second MLP (layers 1, 3, …) is a mixture of experts in GShard's einsum form (GSEC, GSM).

    GShard's balancing loss is left out.

    Parameters
    ----------
    experts : int
        Experts of a layer.
    ffn : int
        Hidden size of the MLP and of one expert; 0: 8 x hidden, which the parameters of Table 7 imply.
    top_k : int
        Experts of a token.
    capacity_factor : float
        An expert takes ceil(capacity_factor x top_k x seq / experts) tokens of a group; a group is one sequence.
        Tokens beyond it are dropped: only the residual carries them.
    layers, vocab, hidden, heads, seq, attention, dtype
        As in `GPT`.

    Raises
    ------
    InputError
        On fewer experts than a token has.
    """

    experts: int
    top_k: int = 2
    capacity_factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.experts < self.top_k:
            raise InputError(f"experts: expected at least top_k = {self.top_k} (got {self.experts})")

    def feed_forward(self, b: Builder, layer: int) -> Callable[[str, str], str]:
        """What writes the feed-forward block of a layer, given the layer's name and what it reads."""
        ffn = self.ffn or 8 * self.hidden
        if layer % 2 == 0:
            return lambda at, x: mlp(b, f"{at}.mlp", x, self.hidden, ffn)
        return lambda at, x: _experts(b, f"{at}.moe", x, self, ffn)


def _experts(b: Builder, name: str, x: str, model: MoE, ffn: int) -> str:
    hidden, experts, top_k = model.hidden, model.experts, model.top_k
    places = math.ceil(model.capacity_factor * top_k * model.seq / experts)
    logits = linear(b, f"{name}.gate", x, "b s h, h e -> b s e", h=hidden, e=experts)
    shares = b.add(
        f"{name}.gate.softmax", "softmax", "b s e -> b s e", logits, statistic="e", saves=(-1,), causal=False
    )
    # A token's place in its expert's queue depends on the tokens before it and on all experts: s and e stay whole.
    weights = b.add(
        f"{name}.gate.top", "gate", "b s e -> b s e c", shares, whole="s e", sizes={"c": places}, saves=(0, -1),
        top_k=top_k, capacity=places, token="s", expert="e", place="c",
    )  # fmt: skip
    mask = b.add(f"{name}.gate.mask", "elementwise", "b s e c -> b s e c", weights, fn="nonzero")
    sent = b.add(f"{name}.dispatch", "dispatch", "b s e c, b s h -> e b c h", mask, x, saves=(0,))
    weight = b.parameter(f"{name}.up.weight", experts, hidden, ffn)
    up = b.add(f"{name}.up", "contraction", "e b c h, e h f -> e b c f", sent, weight, saves=(0, 1))
    b.parameter(f"{name}.up.bias", experts, ffn)
    up = b.add(f"{name}.up.add", "elementwise", "e b c f, e f -> e b c f", up, f"{name}.up.bias", fn="add")
    active = b.add(f"{name}.gelu", "elementwise", "e b c f -> e b c f", up, saves=(0,), fn="gelu", approximate="none")
    b.parameter(f"{name}.down.weight", experts, ffn, hidden)
    down = b.add(
        f"{name}.down", "contraction", "e b c f, e f h -> e b c h", active, f"{name}.down.weight", saves=(0, 1)
    )
    b.parameter(f"{name}.down.bias", experts, hidden)
    down = b.add(f"{name}.down.add", "elementwise", "e b c h, e h -> e b c h", down, f"{name}.down.bias", fn="add")
    return b.add(f"{name}.combine", "dispatch", "b s e c, e b c h -> b s h", weights, down, saves=(0, 1))
