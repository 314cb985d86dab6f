"""`cluster_operators`: merge neighbouring operators into layers (Alpa §5.2, Eq. 6).

Take all clusterings of the operators o_1…o_k into r layers in which no layer has more than (1 + δ) times the average
FLOPs. G(k, r) is the least, over these clusterings, of the most bytes that a layer receives; the programme takes
O(K²L). Among the optimal clusterings, the one with the least variance of FLOPs is taken. That needs a second pass. One
pass cannot minimise both, because a prefix that receives more costs nothing if a later layer receives more still.
"""

from __future__ import annotations

import difflib
from typing import Literal

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.graph import Graph
from .crossing import received_bytes
from .flops import training_flops

__all__ = ["Layer", "cluster_operators", "default_layers"]

Layer = tuple[int, int]
"""First operator, and one past the last."""

Floats = npt.NDArray[np.float64]

VARIANTS = ("dp", "equal_operator")
MOST_LAYERS = 16
"""Most layers that the planner asks for by default: the paper uses 16 for 64 GPUs (Table 5)."""


def cluster_operators(
    graph: Graph, n_layers: int, delta: float = 0.5, variant: Literal["dp", "equal_operator"] = "dp"
) -> tuple[Layer, ...]:
    """Cut a graph's operators, in the order in which they are defined, into layers.

    Parameters
    ----------
    graph : Graph
        The model.
    n_layers : int
        L, the number of layers.
    delta : float
        δ: a layer has at most (1 + δ) · total/L training FLOPs. If no clustering can keep that, because an operator is
        never cut, the least bound that some clustering keeps is used.
    variant : {"dp", "equal_operator"}
        Eq. 6, or the baseline of §8.3: the same number of operators in every layer.

    Returns
    -------
    tuple of (int, int)
        First operator of each layer, and one past its last.

    Raises
    ------
    InputError
        If there are fewer operators than layers, or δ is negative.
    """
    n = len(graph.operators)
    if isinstance(n_layers, bool) or not 1 <= n_layers <= n:
        raise InputError(f"cluster_operators: n_layers: expected 1 … {n}, the number of operators (got {n_layers!r})")
    if not delta >= 0:
        raise InputError(f"cluster_operators: delta: expected at least 0 (got {delta!r})")
    if variant not in VARIANTS:
        near = difflib.get_close_matches(str(variant), VARIANTS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(VARIANTS)}"
        raise InputError(f"cluster_operators: unknown variant {variant!r}; {hint}")
    if variant == "equal_operator":
        ends = [round(n * (r + 1) / n_layers) for r in range(n_layers)]
        return tuple(zip([0, *ends[:-1]], ends, strict=True))
    flops = training_flops(graph)
    received = received_bytes(graph)
    sums = _interval_sums(flops)
    # The margin keeps clusterings that reach the bound exactly, whose sums may have been rounded up.
    bound = max((1 + delta) * float(flops.sum()) / n_layers, _least_largest(sums, n_layers)) * (1 + 1e-12)
    allowed = np.triu(sums <= bound)
    best = _least_most(np.where(allowed, received, np.inf), n_layers)
    chosen = np.where(allowed & (received <= best), sums**2, np.inf)
    return _least_sum(chosen, n_layers)


def default_layers(graph: Graph, n_devices: int) -> int:
    """The default L, from the number of devices, the repeated blocks of the model and its heavy operators.

    It is a divisor of the number of repeated blocks if there is one between the number of devices (at least 8) and 16,
    so that layers hold whole blocks. Otherwise it is 16, or the number of heavy operators if there are fewer. With
    fewer than 8 layers stages could hardly be balanced; that 8 is a guess.

    Parameters
    ----------
    graph : Graph
        The model.
    n_devices : int
        Devices of the cluster.
    """
    heavy = sum(op.heavy for op in graph.operators)
    blocks = len({op.layer for op in graph.operators if op.layer >= 0})
    least = min(max(n_devices, MOST_LAYERS // 2), MOST_LAYERS)
    even = [n for n in range(least, MOST_LAYERS + 1) if blocks and blocks % n == 0]
    wanted = even[0] if even else min(MOST_LAYERS, max(blocks, least))
    return max(1, min(wanted, heavy or 1, len(graph.operators)))


def _interval_sums(values: Floats) -> Floats:
    """[i, k]: sum of values i…k."""
    ends = np.concatenate([[0.0], np.cumsum(values)])
    return ends[None, 1:] - ends[:-1, None]


def _least_most(cost: Floats, n_layers: int) -> float:
    """The least over all cuts into exactly `n_layers` of the largest cost[i, k] of a layer; Eq. 6."""
    best = cost[0]
    for _ in range(n_layers - 1):
        before = np.concatenate([[np.inf], best[:-1]])
        best = np.maximum(before[:, None], cost).min(axis=0)
    return float(best[-1])


def _least_largest(sums: Floats, n_layers: int) -> float:
    """The least possible largest sum of a layer."""
    return _least_most(np.where(np.triu(np.ones_like(sums, bool)), sums, np.inf), n_layers)


def _least_sum(cost: Floats, n_layers: int) -> tuple[Layer, ...]:
    """The cut into exactly `n_layers` with the least Σ cost[i, k]; the earliest cut among equals."""
    n = len(cost)
    best, start = cost[0], np.zeros((n_layers, n), np.int64)
    for r in range(1, n_layers):
        total = np.concatenate([[np.inf], best[:-1]])[:, None] + cost
        start[r] = total.argmin(axis=0)
        best = total[start[r], np.arange(n)]
    layers: list[Layer] = []
    end = n
    for r in range(n_layers - 1, -1, -1):
        first = int(start[r, end - 1])
        layers.append((first, end))
        end = first
    return tuple(reversed(layers))
