"""Random weights of any `DecoderSpec`: drawn from a seed in the asked dtype, on the device where they are used.

What a tensor holds depends on the seed, its layer and its name alone, so a tensor-parallel rank draws the whole tensor
and keeps its part: every number of ranks computes the same model.
"""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from dataclasses import dataclass

import torch
from torch import Tensor

from ....errors import InputError
from ....profiles.llm.decoder import DecoderSpec
from ....seeds import seed_sequence

__all__ = ["DTYPES", "LayerWeights", "Norm", "Part", "Weights", "check_dense", "draw_weights", "torch_dtype"]

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
"""Name -> dtype of weights, activations and keys and values."""


def torch_dtype(name: str) -> torch.dtype:
    """A dtype by name.

    Raises
    ------
    InputError
        On another name than those of `DTYPES`.
    """
    if name not in DTYPES:
        raise InputError(f"dtype: expected one of {', '.join(DTYPES)} (got {name!r})")
    return DTYPES[name]


@dataclass(frozen=True, slots=True)
class Part:
    """Which share of every split matrix a process holds.

    Parameters
    ----------
    rank, size : int
        Tensor-parallel rank, and how many there are.
    """

    rank: int = 0
    size: int = 1

    def check(self, model: DecoderSpec) -> None:
        """See that the model can be split so.

        Raises
        ------
        InputError
            If heads or the feed-forward width do not divide.
        """
        if model.heads % self.size or model.ffn % self.size:
            raise InputError(
                f"tp {self.size}: does not divide the {model.heads} heads and the feed-forward width {model.ffn} of "
                f"{model.name}; choose a divisor of both"
            )
        if model.kv_heads % self.size and self.size % model.kv_heads:
            raise InputError(f"tp {self.size}: does not fit the {model.kv_heads} KV heads of {model.name}")

    def heads(self, model: DecoderSpec) -> int:
        """Query heads of a rank."""
        return model.heads // self.size

    def kv_heads(self, model: DecoderSpec) -> int:
        """KV heads of a rank; one at least, repeated where there are more ranks than heads."""
        return max(1, model.kv_heads // self.size)

    def first_kv_head(self, model: DecoderSpec) -> int:
        """The first KV head of this rank."""
        return self.rank * model.kv_heads // self.size

    def rows(self, tensor: Tensor) -> Tensor:
        """This rank's share of the outputs of a matrix (column parallel)."""
        return _own(tensor.tensor_split(self.size, 0)[self.rank], tensor)

    def columns(self, tensor: Tensor) -> Tensor:
        """This rank's share of the inputs of a matrix (row parallel)."""
        return _own(tensor.tensor_split(self.size, 1)[self.rank], tensor)


def _own(piece: Tensor, whole: Tensor) -> Tensor:
    """A piece that does not keep the whole tensor alive."""
    return whole if piece.shape == whole.shape else piece.clone(memory_format=torch.contiguous_format)


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """Weight, shape (hidden,), and bias of a norm; without a bias it is an RMSNorm, with one a LayerNorm."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """One layer's weights on one rank; matrices are (outputs, inputs).

    Parameters
    ----------
    attention_norm, mlp_norm : Norm
        Before attention and before the feed-forward block.
    qkv, qkv_bias : Tensor
        Queries, keys and values in one matrix, in this order, ``(heads + 2 kv_heads) * head_dim`` outputs.
    o, o_bias : Tensor
        Output projection; its bias only on the first rank, since ranks add up.
    up, up_bias : Tensor
        Into the feed-forward block: gate and up in one matrix where there is a gate.
    down, down_bias : Tensor
        Out of it.
    """

    attention_norm: Norm
    qkv: Tensor
    qkv_bias: Tensor | None
    o: Tensor
    o_bias: Tensor | None
    mlp_norm: Norm
    up: Tensor
    up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A model's weights on one rank.

    Parameters
    ----------
    spec : DecoderSpec
        Its shape.
    part : Part
        Which share this is.
    embedding : Tensor, shape (vocab, hidden)
        Token embedding, whole on every rank.
    positions : Tensor, shape (max_positions, hidden), optional
        Learned positions.
    layers : tuple of LayerWeights
        In order.
    norm : Norm
        Before the head.
    head : Tensor, shape (vocab, hidden) or a share of its rows
        Output head; split over ranks where they divide the vocabulary.
    """

    spec: DecoderSpec
    part: Part
    embedding: Tensor
    positions: Tensor | None
    layers: tuple[LayerWeights, ...]
    norm: Norm
    head: Tensor

    @property
    def head_split(self) -> bool:
        """Whether the head's rows are spread over ranks."""
        return self.part.size > 1 and self.spec.vocab % self.part.size == 0


class _Draw:
    """Draws named tensors on a device."""

    def __init__(self, seed: int, device: torch.device, dtype: torch.dtype) -> None:
        self.seed, self.device, self.dtype = seed, device, dtype
        self.generator = torch.Generator(device)

    def __call__(self, name: str, layer: int, shape: tuple[int, ...], std: float, mean: float = 0.0) -> Tensor:
        state = seed_sequence(self.seed, "llm-engine", name, layer).generate_state(2)
        self.generator.manual_seed(int(state[0]) << 31 | int(state[1]) >> 1)
        tensor = torch.empty(shape, dtype=self.dtype, device=self.device)
        return tensor.normal_(mean, std, generator=self.generator)


def check_dense(spec: DecoderSpec) -> None:
    """See that a model has no experts and plain attention.

    Raises
    ------
    InputError
        If it has others.
    """
    if spec.kv_rank:
        raise InputError(f"{spec.name}: the engine runs plain attention only (got multi-head latent attention)")
    if spec.experts:
        raise InputError(f"{spec.name}: the engine runs dense decoders only (got a mixture of {spec.experts} experts)")


def draw_weights(
    spec: DecoderSpec,
    *,
    seed: int = 0,
    dtype: str = "float32",
    device: str | torch.device = "cpu",
    part: Part | None = None,
) -> Weights:
    """Draw a model.

    Matrices keep the variance of what passes through them. Queries and keys are twice as large, so that attention
    looks at a few tokens rather than at the mean of all: outputs then depend on the whole context, as they do in
    trained models.

    Parameters
    ----------
    spec : DecoderSpec
        Its shape. Without a gate: LayerNorm with biases (OPT, GPT); with one: RMSNorm and SwiGLU (Llama, Qwen).
    seed : int
        Seed, >= 0.
    dtype : str
        A key of `DTYPES`.
    device : str
        Where.
    part : Part, optional
        Which share; the whole model without it.

    Raises
    ------
    InputError
        If the shape cannot be split so, is a mixture of experts, or the dtype is unknown.
    """
    part = part or Part()
    part.check(spec)
    check_dense(spec)
    draw = _Draw(seed, torch.device(device), torch_dtype(dtype))
    width = spec.hidden**-0.5
    embedding = draw("embedding", 0, (spec.vocab, spec.hidden), width if spec.tied else 1.0)
    positions = None
    if spec.learned_positions:
        positions = draw("positions", 0, (spec.max_positions, spec.hidden), width if spec.tied else 1.0)
    layers = tuple(_layer(spec, part, draw, i) for i in range(spec.layers))
    head = embedding if spec.tied else draw("head", 0, (spec.vocab, spec.hidden), width)
    if part.size > 1 and spec.vocab % part.size == 0:
        head = part.rows(head)
    return Weights(spec, part, embedding, positions, layers, _norm(spec, draw, "norm", 0), head)


def _norm(spec: DecoderSpec, draw: _Draw, name: str, layer: int) -> Norm:
    # Around 1, as trained ones are; the spread, a guess, makes every element count in comparisons of outputs.
    weight = draw(name, layer, (spec.hidden,), 0.1, 1.0)
    return Norm(weight, None if spec.gated else draw(name + "_bias", layer, (spec.hidden,), 0.1))


def _layer(spec: DecoderSpec, part: Part, draw: _Draw, i: int) -> LayerWeights:
    width, deep = spec.hidden**-0.5, (2 * spec.layers) ** -0.5
    q, kv = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    first = part.first_kv_head(spec) * spec.head_dim
    mine = slice(first, first + part.kv_heads(spec) * spec.head_dim)

    def bias(name: str, n: int) -> Tensor | None:
        return draw(name, i, (n,), 0.1) if spec.biases else None

    def bias_rows(name: str, n: int) -> Tensor | None:
        whole = bias(name, n)
        return None if whole is None else part.rows(whole)

    def first_only(whole: Tensor | None) -> Tensor | None:
        return whole if part.rank == 0 else None

    qkv = [
        part.rows(draw("q", i, (q, spec.hidden), 2 * width)),
        draw("k", i, (kv, spec.hidden), 2 * width)[mine],
        draw("v", i, (kv, spec.hidden), width)[mine],
    ]
    qkv_bias = None
    if spec.biases:
        q_bias, k_bias, v_bias = (draw(f"{n}_bias", i, (size,), 0.1) for n, size in (("q", q), ("k", kv), ("v", kv)))
        qkv_bias = torch.cat([part.rows(q_bias), k_bias[mine], v_bias[mine]])
    names = ("gate", "up") if spec.gated else ("up",)
    up = [part.rows(draw(name, i, (spec.ffn, spec.hidden), width)) for name in names]
    up_bias = [b for name in names if (b := bias_rows(f"{name}_bias", spec.ffn)) is not None]
    return LayerWeights(
        attention_norm=_norm(spec, draw, "attention_norm", i),
        qkv=torch.cat(qkv),
        qkv_bias=qkv_bias,
        o=part.columns(draw("o", i, (spec.hidden, q), q**-0.5 * deep)),
        o_bias=first_only(bias("o_bias", spec.hidden)),
        mlp_norm=_norm(spec, draw, "mlp_norm", i),
        up=torch.cat(up) if len(up) > 1 else up[0],
        up_bias=torch.cat(up_bias) if up_bias else None,
        down=part.columns(draw("down", i, (spec.hidden, spec.ffn), spec.ffn**-0.5 * deep)),
        down_bias=first_only(bias("down_bias", spec.hidden)),
    )
