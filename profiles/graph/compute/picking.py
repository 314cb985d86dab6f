"""Elements picked by indices: loops that the indices share with what they pick from go together, as in a gather."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .loops import Local, join_loops, split_loops

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["picked"]


def picked(local: Local, x: Tensor, ids: Tensor, dim: int) -> Tensor:
    """The elements of dimension `dim` of x at these indices, in the loops of the operator's result."""
    import torch

    of_x, of_ids = local.op.parsed.operands
    (among,) = of_x[dim]
    have = [loop for group in of_x for loop in group if loop != among]
    theirs = [loop for group in of_ids for loop in group]
    shared = [loop for loop in have if loop in theirs]
    own = [loop for loop in have if loop not in theirs]
    extra = [loop for loop in theirs if loop not in shared]
    rows = split_loops(x, of_x, local.sizes, (*shared, among, *own))
    at = split_loops(ids, of_ids, local.sizes, (*shared, *extra))
    places = [torch.arange(local.sizes[loop]).reshape([-1 if i == k else 1 for i in range(at.ndim)])
              for k, loop in enumerate(shared)]  # fmt: skip
    return join_loops(rows[(*places, at)], local.op.parsed.result, local.sizes, (*shared, *extra, *own))
