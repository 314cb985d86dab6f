"""Cut a model into stages: AlpaServe's dynamic programme (§4.1), and the manual partition that it is compared with."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..errors import InfeasibleError, InputError
from ..reprs import Shown
from .comm import CommModel
from .config import ParallelConfig
from .layers import LayerTable

__all__ = ["Partition", "auto_partition", "computation_partition", "equal_layers", "minimax_starts", "partition_at"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Partition(Shown):
    """A cut of a model's layers into pipeline stages, and what it costs over the bare computation.

    Parameters
    ----------
    config : ParallelConfig
        The configuration that it is for.
    starts : tuple[int, ...]
        First layer of each stage, length ``config.pp``.
    stage_s : tuple[float, ...]
        Latency of each stage, seconds, communication included.
    computation_s : float
        Sum of the layers' latencies at this intra-op degree, seconds, without any communication.

    Notes
    -----
    The decomposition is that of AlpaServe Fig. 8: a pipeline's *effective latency*, the number of stages
    times the slowest stage, is computation + communication + uneven partition.
    """

    config: ParallelConfig
    starts: tuple[int, ...]
    stage_s: tuple[float, ...]
    computation_s: float

    @property
    def latency_s(self) -> float:
        """Seconds that one request spends in the stages."""
        return sum(self.stage_s)

    @property
    def bottleneck_s(self) -> float:
        """Latency of the slowest stage, seconds: what the dynamic programme minimises."""
        return max(self.stage_s)

    @property
    def effective_s(self) -> float:
        """``pp`` times the slowest stage, seconds."""
        return len(self.stage_s) * self.bottleneck_s

    @property
    def communication_s(self) -> float:
        """Seconds of point-to-point transfers, collectives and per-stage overhead."""
        return max(self.latency_s - self.computation_s, 0.0)

    @property
    def uneven_s(self) -> float:
        """Seconds of effective latency that are due to stages shorter than the slowest."""
        return self.effective_s - self.latency_s

    @property
    def overhead(self) -> float:
        """Effective latency over computation, minus 1 (Fig. 16's bars)."""
        return self.effective_s / self.computation_s - 1.0


def auto_partition(
    table: LayerTable, config: ParallelConfig, comm: CommModel | None = None, batch: int = 1
) -> Partition:
    """The partition whose slowest stage is the fastest (AlpaServe §4.1). Embedding and head count as layers.

    Solves F(s, k) = min over i of max(F(s−1, i−1), latency(i, k)) exactly, where latency(i, k) is the sum of
    layers i to k, their all-reduces and, if the transfer occupies a stage, sending the last one's output on.
    Among the optimal partitions the most even one is taken (least sum of squared stage latencies), and among those the
    one whose last stages begin earliest, so the answer is unique. Without `comm` only the layers count.

    Raises
    ------
    InfeasibleError
        If the model has fewer layers than `config` has stages.
    OutOfProfileError
        If `table` or `comm` does not hold the intra-op degree or the batch size.
    """
    if config.pp > len(table):
        raise InfeasibleError(
            f"layer table {table.model!r}: {config} needs {config.pp} stages but there are {len(table)} "
            f"layers; use pp <= {len(table)}"
        )
    layers, sends = _costs(table, config, comm, batch)
    return _partition(table, config, batch, minimax_starts(layers, sends), layers, sends)


def equal_layers(table: LayerTable, config: ParallelConfig, comm: CommModel | None = None, batch: int = 1) -> Partition:
    """The manual partition of Fig. 16: equally many Transformer layers per stage.

    What precedes the first Transformer layer goes with the first stage, what follows the last with the last.
    If ``pp`` does not divide their number n, stage s takes the layers from ⌊s·n/pp⌋ to ⌊(s+1)·n/pp⌋ − 1.

    Raises
    ------
    InfeasibleError
        If the model has fewer Transformer layers than `config` has stages.
    """
    n = table.n_blocks
    if config.pp > max(n, 1):
        raise InfeasibleError(
            f"layer table {table.model!r}: {config} needs {config.pp} stages but there are {n} Transformer "
            f"layers; use pp <= {max(n, 1)}"
        )
    first: dict[int, int] = {}
    for index, layer in enumerate(table.layers):
        if layer.block is not None:
            first.setdefault(layer.block, index)
    begins = [first[block] for block in sorted(first)]
    starts = (0, *(begins[s * n // config.pp] for s in range(1, config.pp)))
    return partition_at(table, config, starts, comm, batch)


def computation_partition(
    table: LayerTable, config: ParallelConfig, comm: CommModel | None = None, batch: int = 1
) -> Partition:
    """The partition that balances only computation, as the paper's formula says. Its latencies still include `comm`.

    If transfers are expensive (stages on different nodes), `auto_partition` gives more layers to the stages that send
    less. That evens out latency, but not memory. This one keeps both nearly even.
    """
    return partition_at(table, config, auto_partition(table, config, None, batch).starts, comm, batch)


def partition_at(
    table: LayerTable,
    config: ParallelConfig,
    starts: Sequence[int],
    comm: CommModel | None = None,
    batch: int = 1,
) -> Partition:
    """The partition whose stages begin at `starts`, with its costs at `batch`."""
    cuts = (*starts, len(table))
    if len(starts) != config.pp or cuts[0] != 0 or any(a >= b for a, b in pairwise(cuts)):
        raise InputError(
            f"layer table {table.model!r}: expected {config.pp} rising first layers that begin at 0 and stay "
            f"below {len(table)} (got {tuple(starts)})"
        )
    layers, sends = _costs(table, config, comm, batch)
    return _partition(table, config, batch, tuple(starts), layers, sends)


def minimax_starts(layers: FloatArray, sends: FloatArray) -> tuple[int, ...]:
    """First layer of each stage in the best partition; see `auto_partition`.

    Parameters
    ----------
    layers : array of float, shape (K,)
        Seconds of each layer.
    sends : array of float, shape (S, K)
        Seconds that stage s occupies beyond its layers if it ends with layer k; S is the number of stages.
    """
    n_stages, n_layers = sends.shape
    stage = _by_end(layers, _feasible(layers, sends))
    # best[s, k]: least slowest stage when the first s stages hold the first k layers (k = 0: none).
    best = np.full((n_stages + 1, n_layers + 1), np.inf)
    best[0, 0] = 0.0
    for s in range(n_stages):
        whole = stage + sends[s, :, None]
        best[s + 1, 1:] = np.maximum(_before(best[s], stage), whole).min(axis=1)
    bottleneck = best[n_stages, n_layers]
    # Second pass among the optimal partitions only: least sum of squares, so that ties end the most even way.
    spread = np.full_like(best, np.inf)
    spread[0, 0] = 0.0
    choice = np.zeros((n_stages, n_layers), dtype=np.int64)
    for s in range(n_stages):
        whole = stage + sends[s, :, None]
        total = _before(spread[s], stage) + np.where(whole <= bottleneck, whole, np.inf) ** 2
        choice[s] = total.argmin(axis=1) + np.arange(1, n_layers + 1) - stage.shape[1]
        spread[s + 1, 1:] = total.min(axis=1)
    starts: list[int] = []
    end = n_layers
    for s in reversed(range(n_stages)):
        end = int(choice[s, end - 1])
        starts.append(end)
    return tuple(reversed(starts))


def _feasible(layers: FloatArray, sends: FloatArray) -> float:
    """The slowest stage of one partition: where the work is shared evenly. No stage of the best one is slower."""
    n_stages, n_layers = sends.shape
    work: list[float] = np.cumsum(layers).tolist()
    even = [bisect_left(work, work[-1] * s / n_stages) for s in range(n_stages)]
    starts = [0]
    for s in range(1, n_stages):  # every stage has a layer, and leaves one for each stage to come
        starts.append(min(max(even[s], starts[-1] + 1), n_layers - n_stages + s))
    cuts = [*starts, n_layers]
    return max(float(np.cumsum(layers[a:b])[-1] + sends[s, b - 1]) for s, (a, b) in enumerate(pairwise(cuts)))


def _by_end(layers: FloatArray, limit: float) -> FloatArray:
    """Sums of runs of layers, shape (K, W): row k ends with layer k, its last column is that layer alone.

    Added from the left, as `sum` does; inf where a run would begin before the first layer, or exceeds `limit`. W is the
    longest run that does not.
    """
    n = len(layers)
    runs = [np.cumsum(layers[i:]) for i in range(n)]
    lengths = [max(int(np.searchsorted(run, limit, side="right")), 1) for run in runs]
    width = max(lengths)
    found = np.full((n, width), np.inf)
    for i, (run, length) in enumerate(zip(runs, lengths, strict=True)):
        steps = np.arange(length)
        found[i + steps, width - 1 - steps] = run[:length]
    return found


def _before(row: FloatArray, stage: FloatArray) -> FloatArray:
    """Of a row of the programme, what stands before each run of `stage`: the entry of the layer that it begins with."""
    n, width = stage.shape
    padded = np.concatenate((np.full(width - 1, np.inf), row[:n]))
    return np.lib.stride_tricks.sliding_window_view(padded, width)


def _costs(
    table: LayerTable, config: ParallelConfig, comm: CommModel | None, batch: int
) -> tuple[FloatArray, FloatArray]:
    """Seconds per layer with its collectives, shape (K,), and per stage beyond its layers, shape (S, K)."""
    layers = table.latency(config.op, batch)
    sends = np.zeros((config.pp, len(table)))
    if comm is None:
        return layers, sends
    layers = layers + comm.collectives_s(table, config.op, batch)
    if config.pp > 1:
        sends += comm.stage_overhead_s
        if comm.p2p_occupies_stage:
            for s in range(config.pp - 1):
                sends[s] += comm.transfer_s(table.output_bytes * batch, config, s)
    return layers, sends


def _partition(
    table: LayerTable,
    config: ParallelConfig,
    batch: int,
    starts: tuple[int, ...],
    layers: FloatArray,
    sends: FloatArray,
) -> Partition:
    cuts = (*starts, len(table))
    stage_s = tuple(float(np.cumsum(layers[a:b])[-1] + sends[s, b - 1]) for s, (a, b) in enumerate(pairwise(cuts)))
    return Partition(config, starts, stage_s, float(table.latency(config.op, batch).sum()))
