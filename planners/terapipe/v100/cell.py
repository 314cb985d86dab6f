r"""`V100Cell`: seconds of a slice on a pipeline of p3.16xlarge nodes (8 V100s each), from what is known about them.

The paper gives no measured layer times, so a layer is counted: its multiplications, and the bytes that its kernels read
and write as TeraPipe's published code runs them (half precision, attention unfused, keys and values kept for the whole
sequence, gradients of weights added up after every slice). Counts are in the constants below.

Known rates: a V100's 125 TFLOP/s and 900 GB/s, 25 Gb/s between nodes (`profiles.device`), an NVLink's 25 GB/s. From
Fig. 2.3, a forward pass of fewer than 256 tokens of GPT3-1B takes as long as one of 256: that time is what launching a
layer's kernels takes (its backward pass has twice as many). Five rates are fitted to latencies of the paper
(`V100Rates`): no more, none by setting.

A stage's time holds the message that it waits for, as in Eq. 2.4 (t_fwd is "the computation latency plus data
transmission latency"): one of the GPUs that share a layer receives it and broadcasts it among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles import device

__all__ = ["CALIBRATED", "V100Cell", "V100Layout", "V100Rates"]

Floats = npt.NDArray[np.float64]

V100 = device("v100-16gb")
NODE = 8
"""GPUs of a p3.16xlarge."""
NVLINK_BYTES_PER_S = 25e9
"""One NVLink 2.0, one direction (data sheet)."""
FLAT_TOKENS, FLAT_HIDDEN = 256, 2048
"""Fig. 2.3: below so many tokens, a layer of GPT3-1B takes as long as with them."""
HEAD = 128
"""Size of an attention head in all of the paper's models."""

# Bytes in half precision, forward and backward, as (times l·H on every GPU, times l·H / #op). LayerNorms read twice and
# write (6, 14 backward), residuals and biases are kernels of their own (6 each); queries are scaled, heads transposed,
# keys and values written, four H of activations passed through ReLU.
_ROW_BYTES = ((36.0, 52.0), (48.0, 96.0))
# Each of l·(c + l)·heads scores: product, mask, softmax in single precision and back, and what their gradients move.
_SCORE_BYTES = (20.0, 24.0)
# Gradients of keys and values are made, cleared and copied for the whole sequence, and added up for the context.
_KEPT_BYTES, _CONTEXT_BYTES = 20.0, (4.0, 12.0)
# Weights read forward; read and their gradients written backward; gradients added up.
_WEIGHT_BYTES, _ADD_BYTES = (2.0, 4.0), 6.0
# Once an iteration, per parameter: gradients to single precision, Adam, weights back; for an all-reduce flat and back.
_UPDATE_BYTES, _FLATTEN_BYTES = 50.0, 12.0


@dataclass(frozen=True, slots=True)
class V100Rates:
    """The rates that are fitted to the paper's latencies.

    Parameters
    ----------
    gemm, memory : float
        Shares of the peak FLOP/s, and of the memory bandwidth, that kernels reach.
    all_reduce_bytes_per_s : float
        Rate of each GPU in an all-reduce within a node.
    collective_s : float
        Least seconds of any collective within a node.
    data_parallel_bytes_per_s : float
        Rate of a node when all its GPUs all-reduce gradients with other nodes at once.
    """

    gemm: float
    memory: float
    all_reduce_bytes_per_s: float
    collective_s: float
    data_parallel_bytes_per_s: float


CALIBRATED = V100Rates(0.8473, 0.8610, 43.79e9, 248.8e-6, 1.787e9)
"""Fitted to 7 of the paper's 33 latencies, none of a slicing that TeraPipe chose: ``reproduce.terapipe.fit`` says
which, and ``python -m meshwright.reproduce.terapipe.fit`` finds them again. Those 7 were picked among eight sets by
what they predict (docs/reproduce-terapipe.md)."""


@dataclass(frozen=True, slots=True)
class V100Layout:
    """A row of Table 2.1: layers, hidden size, and numbers of replicas, stages and GPUs that share a layer."""

    layers: int
    hidden: int
    data: int
    pipe: int
    op: int

    def __post_init__(self) -> None:
        if min(self.layers, self.hidden, self.data, self.pipe, self.op) < 1:
            raise InputError(f"V100Layout: expected positive sizes (got {self})")
        if self.layers % self.pipe or NODE % self.op or self.pipe % (NODE // self.op):
            raise InputError(
                f"V100Layout: expected layers that stages divide, and stages that fill nodes of {NODE} GPUs (got "
                f"{self.layers} layers, {self.pipe} stages of {self.op} GPUs)"
            )

    @property
    def weights(self) -> float:
        """Parameters of a layer on one GPU, biases aside."""
        return 12.0 * self.hidden**2 / self.op


@dataclass(frozen=True, slots=True)
class V100Cell:
    """One stage of a pipeline of V100s.

    Parameters
    ----------
    layout : V100Layout
        The model and how it is cut.
    tokens : int
        L, tokens of a sequence.
    rates : V100Rates
        The rates of the GPUs.
    score_bytes : tuple of float
        Bytes that kernels move for each attention score, forward and backward: as published, unless swept.
    """

    layout: V100Layout
    tokens: int = 2048
    rates: V100Rates = CALIBRATED
    score_bytes: tuple[float, float] = _SCORE_BYTES

    def layer(self, length: npt.ArrayLike, context: npt.ArrayLike = 0, samples: int = 1) -> tuple[Floats, Floats]:
        """Forward and backward seconds of one layer on its GPUs, with its all-reduces.

        Parameters
        ----------
        length, context : array_like of int
            Tokens of the slice, and tokens before it; broadcast together.
        samples : int
            Number of sequences in the slice.
        """
        i, j = (np.asarray(x, np.float64) for x in (length, context))
        x, op = self.layout, self.layout.op
        forward, backward = self._kernels(x.hidden, op, i, j, samples)
        # The whole sequence matters to the backward pass only.
        launch = float(self._kernels(FLAT_HIDDEN, 1, np.array(FLAT_TOKENS), np.array(0), 1)[0])
        add = _ADD_BYTES * x.weights / (self.rates.memory * V100.memory_bandwidth_bytes_per_s)
        sums = 2 * self._collective(2 * (op - 1) / op * samples * i) if op > 1 else 0.0
        return np.maximum(forward, launch) + sums, np.maximum(backward, 2 * launch) + add + sums

    def seconds(self, length: npt.ArrayLike, context: npt.ArrayLike = 0, samples: int = 1) -> tuple[Floats, Floats]:
        """Forward and backward seconds of the stage's layers."""
        n = self.layout.layers // self.layout.pipe
        forward, backward = self.layer(length, context, samples)
        return n * forward, n * backward

    def receive_s(self, stage: int, length: npt.ArrayLike, samples: int = 1) -> Floats:
        """Seconds for which a stage waits for a slice; `stage` is the number of stages before it in its direction."""
        rows = samples * np.asarray(length, np.float64)
        if stage == 0:
            return np.zeros_like(rows)
        n_bytes = 2.0 * rows * self.layout.hidden
        if stage % (NODE // self.layout.op):
            sent = n_bytes / NVLINK_BYTES_PER_S
        else:
            sent = V100.inter_node.latency_s + n_bytes / V100.inter_node.bandwidth_bytes_per_s
        return sent + (self._collective(rows) if self.layout.op > 1 else 0.0)

    def once_s(self) -> tuple[float, float]:
        """Seconds of all-reducing gradients over replicas, and of the optimiser's step, once an iteration."""
        x = self.layout
        mine = x.weights * x.layers / x.pipe
        memory = self.rates.memory * V100.memory_bandwidth_bytes_per_s
        if x.data == 1:
            return 0.0, _UPDATE_BYTES * mine / memory
        # Rings over the nodes of the replicas, one for each GPU of a node: the node's adapter carries them all.
        sent = NODE * 2 * mine * 2 * (x.data - 1) / x.data / self.rates.data_parallel_bytes_per_s
        return sent + _FLATTEN_BYTES * mine / memory, _UPDATE_BYTES * mine / memory

    def table(self, unit: int, samples: Sequence[int] = (1,)) -> Floats:
        """The grid for `slice_tokens`: forward and backward seconds of the stage that waits longest for messages.

        Parameters
        ----------
        unit : int
            Tokens of a unit; divides L.
        samples : sequence of int
            Numbers of sequences, ascending from 1.

        Returns
        -------
        ndarray of float64, shape (len(samples), L / unit, L / unit)
            Seconds, [samples − 1, context, length − 1].
        """
        if unit < 1 or self.tokens % unit or list(samples) != list(range(1, len(samples) + 1)):
            raise InputError(
                f"V100Cell.table: expected a unit that divides {self.tokens} tokens and samples from 1 (got {unit} and "
                f"{list(samples)})"
            )
        n = self.tokens // unit
        start, length = np.arange(n)[:, None] * unit, np.arange(1, n + 1)[None, :] * unit
        node = NODE // self.layout.op
        slowest = node if self.layout.pipe > node else self.layout.pipe - 1
        found = np.zeros((len(samples), n, n))
        for b in samples:
            forward, backward = self.seconds(length, start, b)
            found[b - 1] = forward + backward + 2 * self.receive_s(slowest, length, b)
        return found

    def _collective(self, rows: npt.ArrayLike) -> Floats:
        """Seconds of a collective within the node that moves so many rows of H half-precision numbers."""
        n_bytes = 2.0 * np.asarray(rows, np.float64) * self.layout.hidden
        return self.rates.collective_s + n_bytes / self.rates.all_reduce_bytes_per_s

    def _kernels(self, hidden: int, op: int, i: Floats, j: Floats, samples: int) -> tuple[Floats, Floats]:
        """Forward and backward seconds of a layer's kernels on one GPU, without launches and gradient accumulation."""
        rates, tokens = self.rates, self.tokens
        flops, memory = rates.gemm * V100.peak_flops, rates.memory * V100.memory_bandwidth_bytes_per_s
        mine = hidden / op
        rows, scores = samples * i * hidden, samples * mine / HEAD * i * (i + j)
        weights = 12.0 * hidden**2 / op
        passes: list[Floats] = []
        for k, work in enumerate((1.0, 2.0)):  # the backward pass multiplies for gradients of inputs and of weights
            # Products read their weights while they compute. Near balance neither hides the other fully; a norm of
            # order 4 instead of the maximum says so. The order is a guess.
            product = work * 2 * rows * weights / hidden / flops
            product = (product**4 + (_WEIGHT_BYTES[k] * weights / memory) ** 4) ** 0.25
            attention = work * 4 * HEAD * scores / flops
            shared, own = _ROW_BYTES[k]
            n_bytes = self.score_bytes[k] * scores + rows * (shared + own / op)
            n_bytes = n_bytes + _CONTEXT_BYTES[k] * samples * mine * (i + j) + k * _KEPT_BYTES * samples * mine * tokens
            passes.append(product + attention + n_bytes / memory)
        return passes[0], passes[1]
