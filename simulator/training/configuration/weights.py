"""Weights of a device and what each of them takes: parameters of layers, of stages, and bytes of their states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layer_costs import padded_vocab
from .model import TransformerShape
from .rates import Stack
from .stages import Stages

__all__ = [
    "COPY_BYTES", "STATE_BYTES", "STEP_BYTES", "device_params", "further_params", "layer_params", "stage_params",
    "state_bytes",
]  # fmt: skip

Floats = NDArray[np.float64]

STATE_BYTES = {"bf16": (2, 4, 12), "fp16": (2, 2, 12), "fp32": (4, 4, 8), "fp8": (2, 4, 12)}
"""Bytes per parameter of (parameter, gradient, optimizer) with Adam that live through an iteration."""
STEP_BYTES = {"bf16": 0, "fp16": 4, "fp32": 0, "fp8": 0}
"""And of the optimizer's step alone: fp16 gradients are copied to fp32, and freed before the next forward pass. With
them it is Megatron-LM's table of its distributed optimizer: 18, 20 and 16; sharded (`zero` = 1) 6 + 12/d, 4 + 16/d
and 8 + 8/d."""
COPY_BYTES = {"fp8": 2}
"""Bytes per parameter of a layer's matrices beside the bf16 ones: the 8-bit copy and its transpose, which Transformer
Engine keeps from the first microbatch on (Hopper multiplies 8-bit matrices in one layout only)."""


def state_bytes(stack: Stack, dtype: str) -> tuple[int, int, int]:
    """`STATE_BYTES`, with the gradients of the training software."""
    parameter, gradient, optimizer = STATE_BYTES[dtype]
    return parameter, stack.gradient_bytes or gradient, optimizer


def layer_params(shape: TransformerShape, tp: Any, *, mixed: bool = False) -> Floats:
    """Parameters of one layer on one device, routed experts left out; matrices are split over `tp`, but for those to
    latents and the router. Vectors are not. `mixed`: of a layer with experts."""
    t = np.asarray(tp, dtype=float)
    fused = shape.ffn + shape.q_width + 2 * shape.kv_width  # biases of column-parallel layers are split
    vectors = shape.layer_vector_params
    if not shape.gated:
        vectors = vectors - fused + fused / t
    split = shape.attention_params + (shape.shared_params if mixed else shape.mlp_params)
    return split / t + shape.latent_params + (shape.router_params if mixed else 0) + vectors


def device_params(
    shape: TransformerShape, tp: Any, pp: Any, stages: Stages | None = None, vee: Any = False
) -> tuple[Floats, Floats]:
    """Parameters on one device of the first and of the last stage, routed experts left out. A tied embedding is on both
    ends of a pipeline, as in Megatron; so is one that layers for further tokens use. `stages`: as even as they go,
    unless they are given. `vee`: the model's last chunk is
    on the first device, whose last device has layers alone."""
    t, p = np.asarray(tp, dtype=float), np.asarray(pp, dtype=float)
    stages = stages or Stages.of(shape, pp)
    layers = [stage_params(shape, tp, stages, k) for k in (0, 2)]
    vocabulary = padded_vocab(shape, t) * shape.hidden / t
    positions = 0 if shape.gated else shape.seq * shape.hidden
    norm = (1 if shape.gated else 2) * shape.hidden
    more = further_params(shape, tp)
    alone = (p == 1) | vee
    first = layers[0] + vocabulary + positions + np.where(alone, norm + (0 if shape.tied else vocabulary) + more, 0)
    again = vocabulary if shape.mtp_layers and not shape.tied else 0
    last = np.where(p == 1, first, layers[1] + np.where(vee, 0.0, vocabulary + norm + more + again))
    return first, last


def stage_params(shape: TransformerShape, tp: Any, stages: Stages, at: int) -> Floats:
    """Parameters of the layers of a stage on one device, routed experts left out; `at`: 0 first, 1 middle, 2 last."""
    plain = stages.dense[at] * layer_params(shape, tp)
    return plain + stages.mixed[at] * layer_params(shape, tp, mixed=True) if shape.experts else plain


def further_params(shape: TransformerShape, tp: Any) -> Any:
    """Parameters of layers that predict further tokens, with their projections and norms, routed experts left out."""
    if not shape.mtp_layers:
        return 0
    joined = 2 * shape.hidden**2 / np.asarray(tp, dtype=float) + 3 * shape.hidden
    return shape.mtp_layers * (layer_params(shape, tp, mixed=shape.experts is not None) + joined)
