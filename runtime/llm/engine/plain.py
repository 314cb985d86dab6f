"""The model without cache, batching or kernels of ours, in fp64: the oracle for the engine's tokens."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

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
from .sampling import Sampling, choose, uniforms
from .weights import LayerWeights, Norm, Weights

__all__ = ["generate_plain", "plain_logits", "widened"]


def widened(weights: Weights) -> Weights:
    """The same weights in fp64."""
    return replace(
        weights,
        embedding=weights.embedding.double(),
        positions=None if weights.positions is None else weights.positions.double(),
        layers=tuple(_wide_layer(layer) for layer in weights.layers),
        norm=_wide_norm(weights.norm),
        head=weights.head.double(),
    )


def _wide_norm(norm: Norm) -> Norm:
    return Norm(norm.weight.double(), None if norm.bias is None else norm.bias.double())


def _wide_layer(layer: LayerWeights) -> LayerWeights:
    wide: dict[str, Any] = {}
    for f in fields(layer):
        value = getattr(layer, f.name)
        wide[f.name] = _wide_norm(value) if isinstance(value, Norm) else None if value is None else value.double()
    return LayerWeights(**wide)


@torch.inference_mode()
def plain_logits(weights: Weights, tokens: Sequence[int]) -> Tensor:
    """Logits after every token of one sequence, shape (tokens, vocab): one causal forward pass over all of it."""
    spec, device = weights.spec, weights.embedding.device
    ids = torch.tensor(list(tokens), device=device)
    positions = torch.arange(len(ids), device=device)
    cos, sin = rotary_table(len(ids), spec.head_dim, device, weights.embedding.dtype)
    mask = torch.ones(len(ids), len(ids), dtype=torch.bool, device=device).tril()
    activation, group = activation_of(spec), spec.heads // spec.kv_heads
    x = embed(weights, ids, positions)
    for layer in weights.layers:
        qkv = qkv_proj(layernorm(x, layer.attention_norm), layer, spec.head_dim)
        q, k, v = qkv.split((spec.heads, spec.kv_heads, spec.kv_heads), 1)
        if not spec.learned_positions:
            q, k = rotary_emb(q, cos, sin), rotary_emb(k, cos, sin)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        score = torch.einsum("qhd,khd->hqk", q, k) * spec.head_dim**-0.5
        attended = torch.einsum("hqk,khd->qhd", functional.softmax(score.masked_fill(~mask, -torch.inf), -1), v)
        x = x + o_proj(attended.reshape(len(ids), -1), layer)
        x = x + down_proj(act_fn(up_proj(layernorm(x, layer.mlp_norm), layer), activation), layer)
    return lm_head(layernorm(x, weights.norm), weights)


def generate_plain(
    weights: Weights,
    prompt: Sequence[int],
    output: int,
    sampling: Sampling,
    *,
    name: str | int = 0,
    index: int = 0,
    seed: int = 0,
) -> list[int]:
    """Tokens that a request's sequence `index` must generate: every token from a forward pass over the whole text.

    Parameters
    ----------
    weights : Weights
        All of the model (`Part` of size 1), usually `widened`.
    prompt, output : sequence of int, int
        The prompt, and how many tokens to generate at most.
    sampling : Sampling
        How to choose; stop tokens end the output.
    name, index, seed : str or int, int, int
        The request, its sequence, and the engine's seed: what the random stream is named by.
    """
    tokens, stream = list(prompt), uniforms(sampling, seed, name, index)
    for _ in range(output):
        row = plain_logits(weights, tokens)[-1:]
        token = choose(row, [sampling], [0.0 if sampling.greedy else float(stream.random())])[0]
        tokens.append(token)
        if token in sampling.stop:
            break
    return tokens[len(prompt) :]
