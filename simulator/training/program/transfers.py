"""From what each mesh computes to its whole program: receives, sends, and the work of an iteration's end put in."""

from __future__ import annotations

from collections.abc import Sequence, Sized

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ..policy.orders import Order
from .columns import RECV_B, RECV_F, REDUCE, SEND_B, SEND_F, UPDATE, B, Columns, F, W
from .kernels import expand

__all__ = ["Transfer", "chain", "longest_paths", "with_transfers"]

Transfer = tuple[int, int] | tuple[int, int, bool]
"""(stage that makes it, stage that reads it[, whether a gradient comes back])."""


def chain(n_stages: int) -> list[Transfer]:
    """Each stage hands its result to the next."""
    return [(s, s + 1) for s in range(n_stages - 1)]


def longest_paths(n_stages: int, transfers: Sequence[Transfer]) -> tuple[int, ...]:
    """For each stage, how many stages the longest path from it to a last stage has, itself included.

    Raises
    ------
    InputError
        If a transfer joins a stage with itself or with none, or the transfers go round in a circle.
    """
    targets: list[set[int]] = [set() for _ in range(n_stages)]
    for t, (source, target, *_) in enumerate(transfers):
        if not (0 <= source < n_stages and 0 <= target < n_stages) or source == target:
            raise InputError(f"transfers.{t}: expected two of {n_stages} stages (got {source} and {target})")
        targets[source].add(target)
    readers_left = [len(t) for t in targets]
    sources: list[list[int]] = [[s for s in range(n_stages) if t in targets[s]] for t in range(n_stages)]
    depth = [1] * n_stages
    ready = [s for s in range(n_stages) if not readers_left[s]]
    seen = 0
    while ready:
        at = ready.pop()
        seen += 1
        for s in sources[at]:
            depth[s] = max(depth[s], depth[at] + 1)
            readers_left[s] -= 1
            if not readers_left[s]:
                ready.append(s)
    if seen < n_stages:
        circle = [s for s in range(n_stages) if readers_left[s]]
        raise InputError(f"transfers: stages {', '.join(map(str, circle))} wait for each other in a circle")
    return tuple(depth)


def with_transfers(
    orders: Sequence[Order],
    mesh_of: Sequence[int],
    transfers: Sequence[Transfer],
    *,
    tied: Sequence[Sequence[int]] = (),
    counts: Sequence[int] | None = None,
) -> Columns:
    """Put transfers between stages of different meshes, gradient reduction and updates around what is computed.

    A stage receives right before it computes and sends right after: from its sources by stage number, to its targets
    likewise. A message is of its sender's microbatch: where the sender's are smaller, a stage receives all that make up
    its own; where they are larger, once, before the first of its own that the sender's holds. Once its backward passes
    are done, a mesh reduces the gradients of its stages, exchanges those of tied parameters (every stage that keeps one
    sends its own to all others, and adds what it gets in the order of stages, so that all end with the same sum), and
    updates.

    Parameters
    ----------
    orders : sequence of ndarray
        For each mesh, rows (op, stage, microbatch, slice) of F, B and W.
    mesh_of : sequence of int
        For each stage, its mesh.
    transfers : sequence of tuple
        Edges between stages.
    tied : sequence of sequence of int
        For each parameter that several stages keep, those stages.
    counts : sequence of int, optional
        Microbatches of each stage, where they differ; of two stages with a transfer one's divide the other's.

    Raises
    ------
    InputError
        If an order holds something else.
    """
    n_stages = len(mesh_of)
    every, bounds = np.concatenate(orders).astype(np.int32, copy=False), _bounds(orders)
    known = (every[:, 0] == F) | (every[:, 0] == B) | (every[:, 0] == W)
    for row in np.flatnonzero(~known | (every[:, 1] < 0) | (every[:, 1] >= n_stages))[:1].tolist():
        mesh = int(np.searchsorted(bounds, row, side="right")) - 1
        raise InputError(
            f"orders: mesh {mesh}: expected F, B or W of one of {n_stages} stages (got {every[row].tolist()})"
        )
    peers: dict[int, list[list[int]]] = {op: [[] for _ in range(n_stages)] for op in (RECV_F, SEND_F, RECV_B, SEND_B)}
    edges: dict[tuple[int, int], bool] = {}
    for source, target, *gradient in transfers:
        if mesh_of[source] != mesh_of[target]:
            edges[source, target] = edges.get((source, target), False) or not gradient or gradient[0]
    for (source, target), gradient in sorted(edges.items()):
        peers[SEND_F][source].append(target)
        peers[RECV_F][target].append(source)
        if gradient:
            peers[RECV_B][source].append(target)
            peers[SEND_B][target].append(source)
    ends = [
        _end([s for s in range(n_stages) if mesh_of[s] == mesh], mesh_of, tied) if np.any(order[:, 0] == B) else []
        for mesh, order in enumerate(orders)
    ]
    (op, stage, microbatch, peer, piece), offsets = expand(
        every,
        bounds,
        _peers(peers[RECV_F], peers[RECV_B]),
        _peers(peers[SEND_F], peers[SEND_B]),
        np.array([row for mine in ends for row in mine], dtype=np.int32).reshape(-1, 3),
        _bounds(ends),
        np.array(counts if counts is not None else [1] * n_stages, dtype=np.int32),
    )
    return Columns(op.astype(np.int8), stage, microbatch, peer, piece, offsets)


def _bounds(parts: Sequence[Sized]) -> npt.NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum([len(part) for part in parts], dtype=np.int64)))


def _peers(forward: list[list[int]], backward: list[list[int]]) -> npt.NDArray[np.int32]:
    """For F and for B, per stage: how many peers, and which; shape (2, n_stages, 1 + most)."""
    most = max(map(len, [*forward, *backward]), default=0)
    rows = [[[len(mine), *mine, *[-1] * (most - len(mine))] for mine in way] for way in (forward, backward)]
    return np.array(rows, dtype=np.int32).reshape(2, -1, 1 + most)


def _end(stages: list[int], mesh_of: Sequence[int], tied: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """What a mesh does once its backward passes are done: (op, stage, peer)."""
    # All sends before all receives: sends never wait, so that two stages that exchange gradients cannot block each
    # other. Sorted, because sets have no order and all processes must agree.
    pairs = {(a, b) for group in tied for a in group for b in group if mesh_of[a] != mesh_of[b]}
    rows = [(REDUCE, s, -1) for s in stages]
    rows += [(SEND_B, a, b) for a, b in sorted(pairs) if a in stages]
    rows += [(RECV_B, a, b) for a, b in sorted(pairs) if a in stages]
    return rows + [(UPDATE, s, -1) for s in stages]
