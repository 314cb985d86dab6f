"""`CommModel`: the costs of moving activations between devices, as latency-bandwidth lines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import InputError, OutOfProfileError
from ..reprs import Shown
from .config import ParallelConfig
from .hardware import LinkSpec
from .layers import LayerTable

__all__ = ["CommModel", "fit_line"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class CommModel(Shown):
    """Point-to-point and all-reduce costs on one device type.

    Parameters
    ----------
    p2p : LinkSpec
        From one pipeline stage to the next, within a node.
    allreduce : Mapping[int, LinkSpec]
        Group size -> all-reduce line: ``latency_s`` plus buffer bytes over ``bandwidth_bytes_per_s`` (the
        buffer's own bytes, not what the algorithm moves).
    p2p_occupies_stage : bool
        True if the sending stage is busy while it sends (blocking sends, NCCL on the compute stream): the
        transfer is part of the stage's latency. False if it overlaps with the next request: it becomes
        ``hop_s``.
    stage_overhead_s : float
        Seconds that every stage of a pipeline takes beyond its layers and its send (launch, hand-over).
    p2p_inter_node : LinkSpec, optional
        From one stage to the next on another node.
    devices_per_node : int, optional
        Devices of a node; needed with `p2p_inter_node`. Stages fill nodes in order.
    planned_s : Mapping[int, Mapping[int, tuple[float, ...]]]
        Intra-op degree -> batch size -> seconds of all collectives in each layer, where a planner chose them
        (`planners.alpa.inference`). They stand in place of `allreduce`.
    source : str
        Where the lines come from.
    """

    p2p: LinkSpec
    allreduce: Mapping[int, LinkSpec] = field(default_factory=dict[int, LinkSpec])
    p2p_occupies_stage: bool = True
    stage_overhead_s: float = 0.0
    p2p_inter_node: LinkSpec | None = None
    devices_per_node: int | None = None
    planned_s: Mapping[int, Mapping[int, tuple[float, ...]]] = field(
        default_factory=dict[int, Mapping[int, tuple[float, ...]]]
    )
    source: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.stage_overhead_s) and self.stage_overhead_s >= 0):
            raise InputError(f"CommModel.stage_overhead_s: expected finite seconds >= 0 (got {self.stage_overhead_s})")
        if (self.p2p_inter_node is None) != (self.devices_per_node is None):
            raise InputError("CommModel: p2p_inter_node and devices_per_node go together; give both or neither")
        for size in self.allreduce:
            if size < 2:
                raise InputError(f"CommModel.allreduce: group size must be >= 2 (got {size})")

    def transfer_s(self, n_bytes: FloatArray, config: ParallelConfig, stage: int) -> FloatArray:
        """Seconds to send `n_bytes` from `stage` to the one after it; elementwise, same shape as `n_bytes`.

        At intra-op degree op each of the op pairs of devices sends its share at the same time.
        """
        far, node = self.p2p_inter_node, self.devices_per_node
        if far is not None and node is not None and (config.op >= node or (stage + 1) * config.op % node == 0):
            # The pairs share their node's network: sending shares is no faster.
            return np.asarray(far.latency_s + n_bytes / far.bandwidth_bytes_per_s)
        return np.asarray(self.p2p.latency_s + n_bytes / config.op / self.p2p.bandwidth_bytes_per_s)

    def collectives_s(self, table: LayerTable, op: int, batch: int) -> FloatArray:
        """Seconds of all-reduce in each layer at degree `op`, shape ``(len(table),)``; zero at degree 1.

        Raises
        ------
        OutOfProfileError
            If a layer all-reduces and there is no line for groups of `op`, or nothing was planned for `op` and `batch`.
        InputError
            If the planned collectives are of a table of another length.
        """
        if self.planned_s:
            return self._planned(table, op, batch)
        counts = np.array([layer.allreduces for layer in table.layers], dtype=np.float64)
        if op == 1 or not counts.any():
            return np.zeros(len(table))
        if op not in self.allreduce:
            have = ", ".join(map(str, sorted(self.allreduce))) or "none"
            raise OutOfProfileError(
                f"communication model: no all-reduce line for groups of {op}; held group sizes: {have}"
            )
        line = self.allreduce[op]
        n_bytes = np.array([layer.allreduce_bytes for layer in table.layers]) * batch
        return counts * (line.latency_s + n_bytes / line.bandwidth_bytes_per_s)

    def _planned(self, table: LayerTable, op: int, batch: int) -> FloatArray:
        """The planned collectives of each layer."""
        found = self.planned_s.get(op, {}).get(batch)
        if found is None:
            have = ", ".join(f"op {o} batch {b}" for o, by_batch in sorted(self.planned_s.items()) for b in by_batch)
            raise OutOfProfileError(
                f"communication model: no collectives planned for op {op}, batch {batch}; planned: {have}"
            )
        if len(found) != len(table):
            raise InputError(
                f"communication model: planned for {len(found)} layers; the table of {table.model!r} has {len(table)}"
            )
        return np.array(found)


def fit_line(n_bytes: npt.ArrayLike, seconds: npt.ArrayLike) -> LinkSpec:
    """The latency-bandwidth line that fits measured messages best in relative error.

    Least squares on ``(latency + bytes / bandwidth − seconds) / seconds``, both terms kept >= 0, so that a
    1 KiB and a 16 MiB message weigh the same.

    Parameters
    ----------
    n_bytes, seconds : array_like of float, shape (n,)
        Message sizes, bytes, and how long each took, n >= 2 with two distinct sizes.

    Raises
    ------
    InputError
        On fewer than two distinct sizes, different lengths, or a non-positive or non-finite time.
    """
    x = np.asarray(n_bytes, dtype=np.float64)
    y = np.asarray(seconds, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or len(np.unique(x)) < 2:
        raise InputError(
            f"fit_line: expected two columns of one length with at least two sizes (got {x.shape} and {y.shape})"
        )
    if not (np.isfinite(y).all() and (y > 0).all() and np.isfinite(x).all() and (x >= 0).all()):
        raise InputError("fit_line: sizes must be finite and >= 0, times finite and > 0")
    basis = np.column_stack([1.0 / y, x / y])
    latency, per_byte = (float(v) for v in np.linalg.lstsq(basis, np.ones(len(y)), rcond=None)[0])
    if latency < 0:
        latency, per_byte = 0.0, float(basis[:, 1].sum() / (basis[:, 1] ** 2).sum())
    elif per_byte <= 0:
        latency, per_byte = float(basis[:, 0].sum() / (basis[:, 0] ** 2).sum()), 0.0
    return LinkSpec(1.0 / per_byte if per_byte > 0 else math.inf, latency)
