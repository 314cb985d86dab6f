"""DualPipe: microbatches enter a pipeline from both ends, and every mesh keeps a stage of either direction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....errors import InputError
from ..program.columns import B, F, W
from .pipeline import Order, Pipeline

__all__ = ["check_dualpipe", "dualpipe"]

Pass = tuple[int, int]
"""(operation, direction: 0 that which begins nearer to the mesh, 1 the other)."""


def dualpipe(pipeline: Pipeline) -> list[Order]:
    """Forward passes of one direction beside backward passes of the other (DeepSeek-V3's report, §3.2.1).

    The model is there twice: stages 0 … p − 1 go down the meshes, stages p … 2p − 1 up again, and each direction has
    half of the microbatches. Passes that DualPipe runs beside each other follow each other here, the forward one first.

    Raises
    ------
    InputError
        As `check_dualpipe`.
    """
    p = check_dualpipe(pipeline)
    orders: list[Order] = []
    for r, (down, up) in enumerate(pipeline.stages):
        sides = (down, up) if r < p // 2 else (up, down)
        count = {(op, side): 0 for op in (F, B) for side in (0, 1)}
        rows: list[tuple[int, int, int, int]] = []
        waiting: list[tuple[int, int]] = []  # side and microbatch of weights' halves to come, first in first out
        for op, side in _passes(min(r, p - 1 - r), p, pipeline.microbatches):
            if op == W:
                late, k = waiting.pop(0)
                rows.append((W, sides[late], k, 0))
                continue
            code = B if op == _SPLIT else op
            k = count[code, side]
            count[code, side] += 1
            rows.append((code, sides[side], k, 0))
            if op == _SPLIT:
                waiting.append((side, k))
        orders.append(np.array(rows, dtype=np.int32))
    return orders


_SPLIT = -1
"""A backward pass whose weights' half is put off; no operation's code."""


def _passes(edge: int, p: int, microbatches: int) -> Iterator[Pass]:
    """What a mesh that is `edge` meshes from the nearer end does; `microbatches` of each direction. The weights' half
    says no direction of its own: it is of the backward pass that has waited longest."""
    half = p // 2
    inner = half - edge - 1  # meshes between this one and the middle
    yield from [(F, 0)] * (2 * inner)
    yield from [(F, 0), (F, 1)] * (edge + 1)
    yield from [(_SPLIT, 1), (W, 1), (F, 1)] * inner
    yield from [(F, 0), (B, 1), (F, 1), (B, 0)] * (microbatches - p + edge + 1)
    yield from [(B, 1), (F, 1), (B, 0)] * inner
    last = [(B, 1), (B, 0)] * (edge + 1)
    yield from last[: edge + 1]
    yield from [(_SPLIT, way) for _, way in last[edge + 1 :]]
    yield from [(W, 0), (_SPLIT, 0)] * inner
    yield from [(W, 0)] * (edge + 1)


def check_dualpipe(pipeline: Pipeline) -> int:
    """The number of meshes.

    Raises
    ------
    InputError
        If they are odd, the stages do not go over them and back, the two directions are joined, or a direction has
        fewer microbatches than there are meshes.
    """
    p = len(pipeline.stages)
    if p % 2 or any(stages != (r, 2 * p - 1 - r) for r, stages in enumerate(pipeline.stages)):
        raise InputError(
            f"schedule dualpipe: stages must go over an even number of meshes and back (got stages {pipeline.stages}); "
            f"as with mesh_of={[*range(p), *reversed(range(p))]}"
        )
    joined = next((edge for edge in pipeline.edges if (edge[0] < p) != (edge[1] < p)), None)
    if joined is not None:
        raise InputError(
            f"schedule dualpipe: stages 0 … {p - 1} and {p} … {2 * p - 1} are one model each; expected no transfer "
            f"between them (got {joined[0]} to {joined[1]})"
        )
    if pipeline.microbatches < p:
        raise InputError(
            f"schedule dualpipe: expected {p} microbatches of each direction, or more (got {pipeline.microbatches})"
        )
    return p
