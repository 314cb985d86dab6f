"""Multi-head latent attention: its projections and its attention, absorbed into the latent in decodes.

A decode reads one latent of ``kv_rank + rope_dim`` numbers a token, which all heads share, and multiplies it twice for
each head: with the query (all of it) and by the scores (without the rotated part). Each rank of a tensor-parallel group
holds the whole latent. A prompt is computed as plain attention of heads that are ``head_dim`` wide in queries and keys
and ``value_dim`` in values (DeepSeek-V2 §2.1; vLLM's ``MLACommonImpl``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...decoder import DecoderSpec
from ...tables.kernels import Peaks
from ...tables.operators import area

__all__ = ["latent_decode", "latent_prefill", "projections"]


def projections(model: DecoderSpec, tp: int) -> tuple[tuple[str, float, float], ...]:
    """Products of one layer on one rank around its attention: name, columns and inner width.

    Those to the latents are whole on every rank. What a decode absorbs (queries into the latent, the latent into
    values) is as many products as making keys and values of it is, and as many weights.
    """
    heads, rank = model.heads / tp, model.kv_rank
    queries = heads * model.head_dim
    down = model.q_rank + rank + model.rope_dim
    first = (("projections to latents", down, model.hidden), ("query projection", queries, model.q_rank))
    plain = (("query projection and latent", queries + rank + model.rope_dim, model.hidden),)
    return (
        *(first if model.q_rank else plain),
        ("keys and values of latents", heads * model.kv_up, rank),
        ("output projection", model.hidden, heads * model.value_dim),
    )


def latent_decode(model: DecoderSpec, tp: int, peaks: Peaks, size: int) -> Callable[..., Any]:
    """Roofline of one layer's decodes: bytes of the latents, or products with them, whichever takes longer.

    Parameters
    ----------
    model, tp, peaks
        The model, its tensor-parallel degree, the device.
    size : int
        Bytes of one number of the cache.
    """
    width = model.kv_rank + model.rope_dim
    read = width * size / peaks.bandwidth_bytes_per_s
    computed = 2 * model.heads / tp * (width + model.kv_rank) / peaks.flops

    def ideal(heads: Any, batch: Any, context: Any) -> Any:
        return max(read, computed) * batch * context + 0 * heads

    return ideal


def latent_prefill(model: DecoderSpec, tp: int, peaks: Peaks) -> Callable[..., Any]:
    """Roofline of one layer's prompts without context: scores of `head_dim`, sums of `value_dim`."""
    each = 2 * model.heads / tp * (model.head_dim + model.value_dim) / peaks.flops

    def ideal(heads: Any, batch: Any, length: Any) -> Any:
        return each * batch * area(length) + 0 * heads

    return ideal
