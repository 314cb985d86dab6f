"""What one decoder layer of the decode step costs each GPU under data, tensor, pipeline and cache parallelism.

Volumes and steps are those of rings (`parallel.collectives`); B requests in a replica's batch, E the model's width, Q
and K the widths of all query heads and of all key heads, H heads, t = tp, N shards of each sequence (cp):

=========  ======================================================================  =====================
exchange   sent per GPU and layer between the shards                               all-reduces
=========  ======================================================================  =====================
(cp = 1)   none                                                                    2 of B E over t
qkv        (N-1)/N x B ((Q + 2 K) / t + (Q + 2 H) / t)                             2 of B E / N over t
q          (N-1)/N x B (Q / t + 2 K / (t N) + (Q + 2 H) / t)                       2 of B E / N over t
helix      (N-1)/N x B (Q + H) / t                                                 2 of B E over t N
ag_rs      (N-1) x B (2 Q + N H) / t; the shards are GPUs of the t                 2 of B E over t
a2a        (N-1) x B (2 Q + H) / t; the shards are GPUs of the t                   2 of B E over t
=========  ======================================================================  =====================

each number times its bytes (`Widths`). Multi-head attention has Q = K = E; with grouped queries K is smaller. Sources:
thesis §4.4 ("qkv"; its printed terms are in `parallel.thesis`), vLLM's decode context parallelism ("ag_rs", "a2a"),
Helix, arXiv 2507.07120 ("helix"); "q" follows from "qkv".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....errors import InputError
from ....reprs import Shown
from ...hardware import DeviceSpec, LinkSpec
from ..decoder import DecoderSpec
from .collectives import Collective, all_gather, all_reduce, all_to_all, reduce_scatter, send
from .layout import EXCHANGES, Parallel, Widths
from .split import Split, table_entries, tokens_per_shard

__all__ = ["EXCHANGES", "DecodeLayer", "LayerTime", "Parallel", "Split", "Widths", "collectives", "decode_layer"]


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Seconds of one layer on the GPU with most to do: matrices, attention, communication; nothing overlaps."""

    matrices_s: float
    attention_s: float
    communication_s: float

    @property
    def total_s(self) -> float:
        """All three."""
        return self.matrices_s + self.attention_s + self.communication_s


@dataclass(frozen=True, slots=True, repr=False)
class DecodeLayer(Shown):
    """One decoder layer of one decode step, as one GPU sees it.

    Parameters
    ----------
    layout : Parallel
        Degrees of parallelism.
    collectives : tuple of Collective
        The collectives that the GPU takes part in, in order.
    stage_send : Collective or None
        To the next pipeline stage, once per stage and step (not per layer).
    weight_bytes : float
        Weights that it reads.
    kv_bytes, kv_bytes_mean : float
        Keys and values that it reads: the GPU that reads most, and the mean over all GPUs.
    kv_copies : float
        How often a replica stores each key and value.
    matrix_flops, attention_flops : float
        Floating-point operations, 2 per multiply-add; attention on the GPU with most tokens.
    table_entries : int
        Block-table entries that it is given per step (the replica with most), all layers together.
    """

    layout: Parallel
    collectives: tuple[Collective, ...]
    stage_send: Collective | None
    weight_bytes: float
    kv_bytes: float
    kv_bytes_mean: float
    kv_copies: float
    matrix_flops: float
    attention_flops: float
    table_entries: int

    @property
    def sent_bytes(self) -> float:
        """Bytes that the GPU sends in this layer."""
        return sum(c.sent_bytes for c in self.collectives)

    @property
    def steps(self) -> int:
        """Messages that wait for one another in this layer."""
        return sum(c.steps for c in self.collectives)

    @property
    def imbalance(self) -> float:
        """Keys and values read by the GPU that reads most, over the mean."""
        return self.kv_bytes / self.kv_bytes_mean if self.kv_bytes_mean else 1.0

    def communication_s(self, link: LinkSpec) -> float:
        """Seconds of this layer's collectives, one after another."""
        return sum(c.seconds(link) for c in self.collectives)

    def time(self, device: DeviceSpec, link: LinkSpec | None = None, *, efficiency: float = 1.0) -> LayerTime:
        """A roofline: each of matrices and attention takes the longer of its arithmetic and its reading.

        A lower bound, not a measurement: kernels that are too small to fill a GPU, which is what short sequences split
        many times are, take longer.

        Parameters
        ----------
        device : DeviceSpec
            The GPU.
        link : LinkSpec, optional
            Between neighbours; the device's own within a node if left out.
        efficiency : float
            Share of the peaks that kernels reach, in (0, 1].
        """
        if not 0 < efficiency <= 1:
            raise InputError(f"efficiency: expected a share in (0, 1] (got {efficiency})")
        flops, rate = device.peak_flops * efficiency, device.memory_bandwidth_bytes_per_s * efficiency
        return LayerTime(
            max(self.matrix_flops / flops, self.weight_bytes / rate),
            max(self.attention_flops / flops, self.kv_bytes / rate),
            self.communication_s(link or device.intra_node),
        )

    def host_s(self, entry_s: float) -> float:
        """Seconds per step (all layers) to fill and copy block tables at `entry_s` per entry."""
        return self.table_entries * entry_s


def collectives(
    model: DecoderSpec, batch: float, layout: Parallel, widths: Widths | None = None
) -> tuple[Collective, ...]:
    """Collectives of one layer: the table at the head of this module.

    Parameters
    ----------
    model : DecoderSpec
        The model.
    batch : float
        Requests of one replica; where they are spread over shards, each is taken to have an Nth.
    layout : Parallel
        Degrees of parallelism.
    widths : Widths, optional
        Bytes per number.

    Raises
    ------
    InputError
        If the layout does not fit the model's heads.
    """
    layout.check(model)
    w = widths or Widths()
    n, t = layout.cp, layout.tp
    query = batch * model.heads * model.head_dim / t
    key_value = batch * 2 * layout.kv_heads(model) * model.head_dim
    heads = batch * model.heads / t
    found: list[Collective] = []
    if layout.spread:
        if layout.exchange == "qkv":
            found.append(all_gather("queries, keys, values", (query + key_value) * w.activation, n))
        else:
            found.append(all_gather("queries", query * w.activation, n))
            found.append(all_to_all("new keys, values", key_value / n * w.activation, n))
        found.append(all_to_all("partial results", query * w.partial + heads * w.statistics * w.statistic, n))
    elif n > 1 and layout.exchange == "helix":
        found.append(all_to_all("partial results", query * w.partial + heads * w.statistic, n))
    elif layout.inside:
        found.append(all_gather("queries", n * query * w.activation, n))
        if layout.exchange == "ag_rs":
            found.append(all_gather("log-sums", n * n * heads * w.statistic, n))
            found.append(reduce_scatter("corrected outputs", n * query * w.partial, n))
        else:
            found.append(all_to_all("partial results", n * (query * w.partial + heads * w.statistic), n))
    if layout.matrix_tp > 1:
        rows = batch / n if layout.spread else batch
        buffer = rows * model.hidden * w.activation
        found += [all_reduce(name, buffer, layout.matrix_tp) for name in ("attention output", "feed-forward output")]
    return tuple(found)


def decode_layer(
    model: DecoderSpec,
    layout: Parallel,
    context: Sequence[int],
    *,
    widths: Widths | None = None,
    split: Split | None = None,
    block_size: int = 16,
) -> DecodeLayer:
    """One layer of one decode step.

    Parameters
    ----------
    model : DecoderSpec
        The model.
    layout : Parallel
        Degrees of parallelism.
    context : sequence of int
        Tokens of every running request, all replicas together, the new token included. Replicas get them in turn.
    widths : Widths, optional
        Bytes per number.
    split : Split, optional
        How sequences are cut over shards; interleaved if left out.
    block_size : int
        Tokens in a block on one GPU.

    Raises
    ------
    InputError
        On no requests or an empty one, or a layout that does not fit the model's heads.
    """
    if not len(context) or min(context) < 1:
        raise InputError("context: expected the tokens of at least one request, each >= 1")
    layout.check(model)
    w = widths or Widths()
    replicas = [np.asarray(context[r :: layout.dp], dtype=np.int64) for r in range(layout.dp)]
    # Requests are spread as evenly as they go: the largest replica, and in it the shard with most of them.
    batch = max(len(r) for r in replicas)
    rows = -(-batch // layout.cp) if layout.spread else batch
    per_gpu = np.concatenate([tokens_per_shard(r, layout.cp, split).sum(axis=1) for r in replicas])
    most, mean = int(per_gpu.max()), float(per_gpu.mean())
    token = 2 * layout.kv_heads(model) * model.head_dim
    weights = _weights(model, layout)
    stage = model.hidden * w.activation * batch / layout.stage_devices
    return DecodeLayer(
        layout=layout,
        collectives=collectives(model, batch, layout, w),
        stage_send=send("activations", stage) if layout.pp > 1 else None,
        weight_bytes=weights * w.weight,
        kv_bytes=most * token * w.kv,
        kv_bytes_mean=mean * token * w.kv,
        kv_copies=layout.kv_copies(model),
        matrix_flops=2 * weights * rows,
        attention_flops=4 * most * model.heads / layout.head_groups * model.head_dim,
        table_entries=max(table_entries(r, block_size, layout.cp) for r in replicas),
    )


def _weights(model: DecoderSpec, layout: Parallel) -> float:
    """Weights of one layer on one GPU: ``W`` under data and cache parallelism, ``W / tp`` under tensor parallelism.

    Keys' and values' projections are repeated where `tp` is above the KV heads; biases are split with their matrix.
    """
    t, all_of_it = layout.tp, layout.matrix_tp
    bias = 1 if model.biases else 0
    q, width = model.heads * model.head_dim, model.hidden
    kv = 2 * layout.kv_heads(model) * model.head_dim
    output = q * width + bias * width
    feed_forward = (3 if model.gated else 2) * width * model.ffn + bias * (model.ffn + width)
    return (q / t + kv) * (width + bias) + (output + feed_forward) / all_of_it
