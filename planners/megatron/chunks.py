"""`Chunks`: what each chunk of a configuration's layers takes and keeps, as a plan's stages say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...simulator import Cluster
from ...simulator.training import DeviceRates, Settings, Stack
from ...simulator.training.configuration.activations.decide import decide
from ...simulator.training.configuration.activations.fit import Chosen
from ...simulator.training.configuration.collectives import GroupLinks
from ...simulator.training.configuration.columns import Columns
from ...simulator.training.configuration.kernels import Kernels
from ...simulator.training.configuration.layer.parts import products
from ...simulator.training.configuration.layer.spread import Spread
from ...simulator.training.configuration.layer_costs import LayerTimes, end_times, layer_times, padded_vocab
from ...simulator.training.configuration.memory import kept_per_layer
from ...simulator.training.configuration.model import TransformerShape
from ...simulator.training.configuration.rates import rates_of
from ...simulator.training.configuration.stages import stage_layers
from ...simulator.training.configuration.weights import COPY_BYTES, further_params, layer_params, state_bytes

__all__ = ["Chunk", "Chunks", "dealt"]

Kinds = tuple[int, int]
"""Layers with a dense MLP, and with experts."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Layers in a row on one device. Seconds and activations are those of one microbatch.

    Parameters
    ----------
    layers : int
        How many, those that predict further tokens left out.
    forward_s, inputs_s, weights_s : float
        Forward pass; backward pass, and of that what gradients of weights take, which is not in `inputs_s`.
    parameter_bytes, optimizer_bytes : float
        Parameters and gradients; the optimizer's state.
    activation_bytes, logits_bytes : float
        Kept for the backward pass, gradients of weights included; by the output layer, which does all of its backward
        pass at once.
    busy_s : tuple of tuple of float
        Of the forward and of the backward pass, seconds of its layers' collectives that no work hides: on ports of
        devices, and on adapters of nodes.
    """

    layers: int
    forward_s: float
    inputs_s: float
    weights_s: float
    parameter_bytes: float
    optimizer_bytes: float
    activation_bytes: float
    logits_bytes: float
    busy_s: tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """The chunks of a configuration, in the model's order.

    Parameters
    ----------
    each : tuple of Chunk
        The chunks.
    kernels : Kernels
        What priced them.
    chosen : Chosen, optional
        What is recomputed and offloaded by choice.
    """

    each: tuple[Chunk, ...]
    kernels: Kernels
    chosen: Chosen | None

    @classmethod
    def of(
        cls,
        shape: TransformerShape,
        cluster: Cluster,
        c: Settings,
        stack: Stack,
        rates: DeviceRates | None,
        limit: float,
    ) -> Chunks:
        """Of a configuration that breaks no rule; `limit`: bytes that choices may fill."""
        kernels = Kernels(cluster.spec, rates or rates_of(cluster.spec), c.dtype, None, cluster.n_devices)
        one = c.columns
        chosen = decide(shape, cluster, kernels, stack, one, limit)
        if chosen is not None:  # which says all that is recomputed
            one = replace(one, recompute=one.recompute * 0)
        priced = _Priced.of(shape, cluster, kernels, stack, one, chosen)
        held = _Held.of(shape, c, stack, one, chosen)
        sizes = dealt(shape, c)
        count = len(sizes)
        each: list[Chunk] = []
        for s, kinds in enumerate(sizes):
            first, last = s == 0, s == count - 1
            seconds = priced.of_chunk(kinds, first, last)
            parameters, optimizer = held.states(kinds, first, last)
            kept = held.activations(kinds, last)
            busy = priced.busy(kinds)
            each.append(Chunk(sum(kinds), *seconds, parameters, optimizer, kept, held.logits * last, busy))
        return cls(tuple(each), kernels, chosen)


def dealt(shape: TransformerShape, c: Settings) -> list[Kinds]:
    """Layers of every chunk, in their order. The embedding, the output layer and each layer that predicts a further
    token may take a layer's place in the first and the last chunk; given numbers are in equal chunks."""
    found = stage_layers(shape, c.pp, c.interleave, c.first_layers, c.last_layers)
    first, middle, last = (round(float(x)) for x in found)
    count = c.pp * c.interleave
    sizes = [middle // c.interleave] * count
    for given, stage, layers in ((c.first_layers, 0, first), (c.last_layers, c.pp - 1, last)):
        if given:
            sizes[stage :: c.pp] = [layers // c.interleave] * c.interleave
        elif count > 1:
            sizes[0 if stage == 0 else -1] -= middle - layers
    kinds = [shape.experts is not None] * shape.layers
    if shape.experts is not None and shape.experts.dense_layers:
        few = shape.experts.dense_layers
        dense = [k * shape.layers // few for k in range(few)] if shape.experts.alternate else range(few)
        for k in dense:
            kinds[k] = False
    starts = [sum(sizes[:k]) for k in range(count)]
    mixed = [sum(kinds[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
    return [(size - few, few) for size, few in zip(sizes, mixed, strict=True)]


Seconds = tuple[float, float, float]
"""Forward, backward without gradients of weights, and these."""
Busy = tuple[float, float]
"""Seconds of collectives on ports of devices, and on adapters of nodes."""


@dataclass(frozen=True, slots=True)
class _Priced:
    """Seconds of a layer of either kind, and of the two ends."""

    kinds: tuple[Seconds, Seconds]
    ends: tuple[Seconds, Seconds]
    links: tuple[tuple[Busy, Busy], tuple[Busy, Busy]]  # of either kind, forward and backward

    @classmethod
    def of(
        cls, shape: TransformerShape, cluster: Cluster, kernels: Kernels, stack: Stack, one: Columns,
        chosen: Chosen | None,
    ) -> _Priced:  # fmt: skip
        group = GroupLinks.of(cluster, kernels.rates, one.tp, 1)
        spread = Spread.of(shape, cluster, kernels.rates, one)
        own = (one.microbatch, one.sequence_parallel, one.recompute, spread)
        dense = layer_times(shape, kernels, stack, group, *own)
        mixed = layer_times(shape, kernels, stack, group, *own, mixed=True) if shape.experts else dense
        more = ((0.0, 0.0), (0.0, 0.0))  # forward and backward, by kind
        if chosen is not None:
            plain, special = ((float(x[1][0]), float(x[0][0] + x[2][0])) for x in chosen.each)
            more = plain, special
        kinds = tuple(_seconds(x, *extra) for x, extra in zip((dense, mixed), more, strict=True))
        ends = end_times(shape, kernels, group, one.microbatch, one.sequence_parallel, stack, one.cp)
        head = np.array([ends.head_forward[0], ends.head_backward[0], 0.0]) * (1 + shape.mtp_layers)
        if shape.mtp_layers:
            n, h = one.microbatch * (shape.seq / one.cp), shape.hidden
            joined = products(kernels, stack, n, ((h / one.tp, 2 * h),))
            forward, backward = float(joined.forward[0]), float(joined.backward[0])
            head = head + shape.mtp_layers * (np.array(kinds[1]) + np.array([forward, backward, 0.0]))
        first = float(ends.embedding_forward[0]), float(ends.embedding_backward[0]), 0.0
        node = cluster.devices_per_node
        inside = bool(group.inside[0]), bool(spread.ring.inside[0]), int(one.ep[0] * one.expert_tensor[0]) <= node
        plain, special = ((_busy(x, 0, inside), _busy(x, 1, inside)) for x in (dense, mixed))
        return cls((kinds[0], kinds[1]), (first, (float(head[0]), float(head[1]), float(head[2]))), (plain, special))

    def busy(self, kinds: Kinds) -> tuple[Busy, Busy]:
        """Of a chunk, forward and backward."""
        (a, b), (c, d) = self.links
        n, k = kinds
        return (n * a[0] + k * c[0], n * a[1] + k * c[1]), (n * b[0] + k * d[0], n * b[1] + k * d[1])

    def of_chunk(self, kinds: Kinds, first: bool, last: bool) -> Seconds:
        """Of a chunk."""
        parts = [
            np.multiply(n, seconds) for n, seconds in zip((*kinds, first, last), (*self.kinds, *self.ends), strict=True)
        ]
        forward, inputs, weights = np.sum(parts, axis=0).tolist()
        return forward, inputs, weights


def _seconds(layer: LayerTimes, forward: float, backward: float) -> Seconds:
    """Of a layer, with what choices add."""
    weight = float(layer.weight[0])
    return float(layer.forward[0]) + forward, float(layer.backward[0]) - weight + backward, weight


def _busy(layer: LayerTimes, way: int, inside: tuple[bool, bool, bool]) -> Busy:
    """Of a layer: what the estimate charges for tensor and context parallelism and for experts, on the links of each;
    `inside`: whether their groups are in one node."""
    charged = layer.tensor[way], layer.context[way], layer.experts[way]
    ports, adapters = (
        sum(float(x[0]) for x, near in zip(charged, inside, strict=True) if near == here) for here in (True, False)
    )
    return ports, adapters


@dataclass(frozen=True, slots=True)
class _Held:
    """Bytes: kept of a microbatch by a layer of either kind and by the output layer; of parameters, in layers and at
    the ends, split into what is shared as experts are and what is not."""

    kept: Sequence[float]
    logits: float
    params: Sequence[float]
    matrices: Sequence[float]
    experts: float
    ends: tuple[float, float]
    further: float
    shared: tuple[float, float]
    apart: tuple[float, float]
    copies: int

    @classmethod
    def of(cls, shape: TransformerShape, c: Settings, stack: Stack, one: Columns, chosen: Chosen | None) -> _Held:
        size, mixed = 4 if c.dtype == "fp32" else 2, shape.experts
        n = c.microbatch * shape.seq / c.cp
        kept = [float(x[0]) for x in kept_per_layer(shape, stack, one, size, c.dtype in COPY_BYTES)]
        if chosen is not None:
            kept = [float(chosen.held.dense[0]), float(chosen.held.mixed[0])]
        columns = float(padded_vocab(shape, c.tp)) / c.tp
        split = c.tp if c.sequence_parallel else 1
        # The output layer keeps the final norm's input and output, and logits in fp32.
        logits = (1 + shape.mtp_layers) * (2 * size * n * shape.hidden / split + 4 * n * columns)
        vocabulary = columns * shape.hidden
        # A tied embedding is on both ends (Megatron), and so is one that layers for further tokens use; where both
        # ends are on one device there is one of it.
        again = vocabulary if shape.mtp_layers and not shape.tied else 0.0
        own = 0.0 if shape.tied and _together(c) else vocabulary
        ends = vocabulary, own + (0.0 if _together(c) else again) + float(further_params(shape, c.tp))
        states = state_bytes(stack, c.dtype)
        routed = 0.0 if mixed is None else mixed.count * shape.expert_params / c.ep / (c.etp or c.tp)
        matrices = [shape.layer_matrix_params / c.tp]
        matrices += [] if mixed is None else [(shape.attention_params + shape.shared_params) / c.tp + routed]
        return cls(
            kept, logits,
            [float(layer_params(shape, c.tp)), float(layer_params(shape, c.tp, mixed=mixed is not None))],
            [*matrices, 0.0][:2], routed, ends, float(shape.mtp_layers),
            _bytes(c, states, int(one.shards[0])), _bytes(c, states, int(one.expert_shards[0])),
            COPY_BYTES.get(c.dtype, 0),
        )  # fmt: skip

    def states(self, kinds: Kinds, first: bool, last: bool) -> tuple[float, float]:
        """Of parameters and gradients, and of the optimizer."""
        params = float(np.dot(kinds, self.params)) + self.ends[0] * first + self.ends[1] * last
        routed = (kinds[1] + self.further * last) * self.experts
        parameters, optimizer = (params * x + routed * y for x, y in zip(self.shared, self.apart, strict=True))
        return parameters + self.copies * float(np.dot(kinds, self.matrices)), optimizer

    def activations(self, kinds: Kinds, last: bool) -> float:
        """Of a microbatch."""
        return float(np.dot(kinds, self.kept)) + self.further * self.kept[1] * last


def _together(c: Settings) -> bool:
    """Whether the model's first and last chunk are on one device."""
    return c.pp == 1 or c.schedule == "zb-v"


def _bytes(c: Settings, states: tuple[int, int, int], shards: int) -> tuple[float, float]:
    """Bytes per parameter of parameters and gradients, and of the optimizer. Parameters are shared from ZeRO 3 on,
    gradients from 2, the optimizer's state from 1."""
    parameter, gradient, optimizer = (
        each / (shards if c.zero >= level else 1) for each, level in zip(states, (3, 2, 1), strict=True)
    )
    gathered = states[0] if c.zero == 3 and not c.reshard else 0
    return parameter + gradient + gathered, 0.0 if c.offload_optimizer else optimizer
