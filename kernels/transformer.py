"""Real models as lists of layers, and pipeline stages made of them. These are what is timed, and what the runtime
runs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .layers import AllReduce, Attention, BertHead, Embedding, FeedForward, LanguageHead, Norm, Shard, Weights
from .moe import Experts
from .specs import ModelSpec, hidden_shape

__all__ = [
    "Layer",
    "Stage",
    "build_layers",
    "build_stage",
    "make_hidden",
    "make_input",
    "make_stage_input",
    "weight_bytes",
]


class Layer(nn.Module):
    """A Transformer layer: attention, then feed-forward or experts; post-norm for BERT, else pre-norm."""

    def __init__(self, spec: ModelSpec, weights: Weights, shard: Shard, *, experts: bool) -> None:
        super().__init__()
        self.post_norm = spec.family == "bert"
        self.norm_1, self.norm_2 = Norm(weights, spec.hidden), Norm(weights, spec.hidden)
        self.attention = Attention(spec, weights, shard)
        self.block = Experts(spec, weights, shard) if experts else FeedForward(spec, weights, shard)

    def forward(self, x: Tensor) -> Tensor:
        if self.post_norm:
            x = self.norm_1(x + self.attention(x))
            return self.norm_2(x + self.block(x))
        x = x + self.attention(self.norm_1(x))
        return x + self.block(self.norm_2(x))


class Stage(nn.Sequential):
    """Layers `first` up to, not including, `last` of a model, run forward only.

    Input: token ids, int64, shape (batch, tokens), if the stage begins with the embedding, else the hidden
    state, shape ``hidden_shape(spec, batch)``. Output: the hidden state, or what the head gives: (batch,
    labels) for BERT, (batch, tokens, 2) float32 (token id, logit) for GPT and MoE.
    """

    def __init__(self, spec: ModelSpec, first: int, last: int, layers: list[nn.Module]) -> None:
        super().__init__(*layers)
        self.spec, self.first, self.last = spec, first, last

    @torch.inference_mode()
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input)


def _layer(spec: ModelSpec, number: int, weights: Weights, shard: Shard) -> nn.Module:
    kind = spec.kind(number)
    if kind == "embedding":
        return Embedding(spec, weights, shard)
    if kind == "head":
        head = BertHead if spec.family == "bert" else LanguageHead
        return head(spec, weights, shard)
    return Layer(spec, weights, shard, experts=kind == "moe")


def build_layers(
    spec: ModelSpec,
    seed: int = 0,
    device: str = "cpu",
    op_rank: int = 0,
    op_size: int = 1,
    all_reduce: AllReduce | None = None,
    *,
    first: int = 0,
    last: int | None = None,
) -> list[nn.Module]:
    """The layers `first` up to, not including, `last` of a model: embedding, Transformer layers, head.

    Parameters
    ----------
    spec : ModelSpec
        The model.
    seed : int
        Weights are made from it; they do not depend on the partition (stages, shards) or the device.
    device : str
        Torch device; ``meta`` for shapes without weights.
    op_rank, op_size : int
        This device's share of each operator.
    all_reduce : callable, optional
        ``all_reduce(tensor) -> tensor``: the sum over the `op_size` devices; in place is fine. Needed exactly
        when `op_size` > 1.
    first, last : int
        Range of layers; all by default.

    Returns
    -------
    list of nn.Module
        In evaluation mode, without gradients.

    Raises
    ------
    ValueError
        If the model cannot be split so, or the range is empty or outside the model.
    """
    last = spec.n_layers if last is None else last
    if not 0 <= first < last <= spec.n_layers:
        raise ValueError(
            f"ModelSpec {spec.name!r}: expected 0 <= first < last <= {spec.n_layers} (got {first} and {last})"
        )
    spec.check_op(op_size)
    shard = Shard(op_rank, op_size, all_reduce)
    dtype = getattr(torch, spec.dtype)
    return [_layer(spec, i, Weights(seed, i, device, dtype), shard).eval() for i in range(first, last)]


def build_stage(
    spec: ModelSpec,
    first: int,
    last: int,
    *,
    seed: int = 0,
    device: str = "cpu",
    op_rank: int = 0,
    op_size: int = 1,
    all_reduce: AllReduce | None = None,
) -> Stage:
    """A pipeline stage: layers `first` up to, not including, `last`. See `build_layers` for the rest."""
    layers = build_layers(spec, seed, device, op_rank, op_size, all_reduce, first=first, last=last)
    return Stage(spec, first, last, layers)


def _stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_input(spec: ModelSpec, batch: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """Random token ids for a whole model: int64, shape (batch, tokens), the same on every device."""
    return torch.randint(spec.vocab, (batch, spec.seq_len), generator=_stream(seed)).to(device)


def make_hidden(spec: ModelSpec, batch: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """A random hidden state, shape ``hidden_shape(spec, batch)``, in the model's dtype."""
    hidden = torch.randn(hidden_shape(spec, batch), generator=_stream(seed))
    return hidden.to(device, getattr(torch, spec.dtype))


def make_stage_input(spec: ModelSpec, first: int, batch: int, seed: int = 0, device: str = "cpu") -> Tensor:
    """What a stage that begins with layer `first` takes: token ids for layer 0, else a hidden state."""
    return (make_input if first == 0 else make_hidden)(spec, batch, seed, device)


def weight_bytes(spec: ModelSpec, op_size: int = 1) -> tuple[int, ...]:
    """Weight bytes of each layer on the fullest of `op_size` devices, shape ``(spec.n_layers,)``."""
    split = None if op_size == 1 else (lambda tensor: tensor)
    per_rank = [
        [
            sum(p.numel() * p.element_size() for p in layer.parameters())
            for layer in build_layers(spec, 0, "meta", rank, op_size, split)
        ]
        for rank in range(op_size)
    ]
    return tuple(max(column) for column in zip(*per_rank, strict=True))
