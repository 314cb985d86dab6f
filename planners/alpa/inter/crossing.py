"""What crosses a cut of the graph: bytes that operators receive from earlier ones, and the values themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ....profiles.graph import Graph
from .flops import has_gradient

__all__ = ["received_bytes", "values_between"]


def received_bytes(graph: Graph, gradients: bool = False) -> npt.NDArray[np.float64]:
    """C(i, k) of Eq. 6: bytes that operators i…k read of results of operators before i, each result once.

    Parameters and inputs of the graph are not received: they are where they are used.

    Parameters
    ----------
    graph : Graph
        The model.
    gradients : bool
        Whether the gradients that go back count as well.

    Returns
    -------
    ndarray of float64, shape (K, K)
        Bytes of one microbatch; 0 where i > k.
    """
    n = len(graph.operators)
    returned = has_gradient(graph) if gradients else {}
    first_reader = np.zeros((n, n + 1))  # [i, k]: bytes of values from before i that are first read at or after i by k
    for p, op in enumerate(graph.operators):
        readers = sorted({i for i, _ in graph.consumers[op.name]})
        start = p + 1
        for reader in readers:
            first_reader[start : reader + 1, reader] += op.bytes * (2 if returned.get(op.name) else 1)
            start = reader + 1
    received = np.cumsum(first_reader, axis=1)[:, :n]
    return np.triu(received)


def values_between(graph: Graph, bounds: Sequence[tuple[int, int]]) -> list[tuple[int, int, str]]:
    """Values that one stage makes and another reads: (making stage, reading stage, operator), in order.

    A value that skips stages goes from its maker straight to each reader.

    Parameters
    ----------
    graph : Graph
        The model.
    bounds : sequence of (int, int)
        First operator of each stage, and one past its last.
    """
    stage_of = np.empty(len(graph.operators), np.int64)
    for s, (first, last) in enumerate(bounds):
        stage_of[first:last] = s
    found: list[tuple[int, int, str]] = []
    for p, op in enumerate(graph.operators):
        makes = int(stage_of[p])
        readers = sorted({int(stage_of[i]) for i, _ in graph.consumers[op.name]})
        found += [(makes, reads, op.name) for reads in readers if reads != makes]
    return found
