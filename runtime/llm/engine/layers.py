"""The operators of a decoder, one function each, as the engine runs them and `meshwright measure llm` times them."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
import torch
import torch.nn.functional as functional
from torch import Tensor

from ....profiles.llm.decoder import DecoderSpec
from .weights import LayerWeights, Norm, Weights

__all__ = [
    "act_fn",
    "activation_of",
    "down_proj",
    "embed",
    "layernorm",
    "lm_head",
    "o_proj",
    "qkv_proj",
    "rotary_emb",
    "rotary_table",
    "up_proj",
]

# Llama 2's, for every model: weights are random and the time of an operator does not depend on them.
EPSILON = 1e-5
ROTARY_BASE = 10_000.0


def activation_of(spec: DecoderSpec) -> str:
    """What the feed-forward block applies: SwiGLU with a gate, ReLU in OPT, GELU in other models without one."""
    return "silu" if spec.gated else "relu" if "opt" in spec.name.lower() else "gelu"


def embed(weights: Weights, tokens: Tensor, positions: Tensor) -> Tensor:
    """Token embedding, shape (tokens, hidden), with learned positions added where the model has them."""
    x = functional.embedding(tokens, weights.embedding)
    return x if weights.positions is None else x + functional.embedding(positions, weights.positions)


def layernorm(x: Tensor, norm: Norm) -> Tensor:
    """RMSNorm, or LayerNorm where the norm has a bias."""
    if norm.bias is None:
        return functional.rms_norm(x, norm.weight.shape, norm.weight, EPSILON)
    return functional.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, EPSILON)


def qkv_proj(x: Tensor, layer: LayerWeights, head_dim: int) -> Tensor:
    """Queries, keys and values of this rank, shape (tokens, heads + 2 kv_heads, head_dim)."""
    return functional.linear(x, layer.qkv, layer.qkv_bias).view(x.shape[0], -1, head_dim)


def rotary_table(length: int, head_dim: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of rotary positions, shape (length, 1, head_dim / 2) each, in at least fp32."""
    wide = torch.promote_types(dtype, torch.float32)
    powers = torch.arange(0, head_dim, 2, dtype=torch.float64, device=device) / head_dim
    angle = torch.arange(length, dtype=torch.float64, device=device)[:, None] * ROTARY_BASE**-powers
    return angle.cos().to(wide)[:, None], angle.sin().to(wide)[:, None]


def rotary_emb(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate heads by position: the first half of a head against the second (Llama's convention).

    Parameters
    ----------
    x : Tensor, shape (tokens, heads, head_dim)
        Queries and keys.
    cos, sin : Tensor, shape (tokens, 1, head_dim / 2)
        Of each token's position.
    """
    a, b = x.to(cos.dtype).chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def o_proj(attended: Tensor, layer: LayerWeights) -> Tensor:
    """Output projection of attention, this rank's share of the sum."""
    return functional.linear(attended, layer.o, layer.o_bias)


def up_proj(x: Tensor, layer: LayerWeights) -> Tensor:
    """Into the feed-forward block; gate and up side by side."""
    return functional.linear(x, layer.up, layer.up_bias)


def act_fn(x: Tensor, activation: str) -> Tensor:
    """Activation: of SwiGLU the product of both halves."""
    if activation == "silu":
        gate, up = x.chunk(2, -1)
        return functional.silu(gate).mul_(up)
    return functional.relu(x) if activation == "relu" else functional.gelu(x)


def down_proj(x: Tensor, layer: LayerWeights) -> Tensor:
    """Out of the feed-forward block, this rank's share of the sum."""
    return functional.linear(x, layer.down, layer.down_bias)


def lm_head(x: Tensor, weights: Weights) -> Tensor:
    """Logits over this rank's share of the vocabulary, shape (rows, vocab or a share)."""
    return functional.linear(x, weights.head)
