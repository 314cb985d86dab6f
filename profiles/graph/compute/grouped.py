"""Products whose rows each take the matrix that an index picks: experts that drop no token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .loops import Local, join_loops, split_loops

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["grouped"]


def grouped(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """The product; where the matrices are cut over devices, each has the rows of its own, zero elsewhere."""
    import torch

    op, pick = local.op, str(local.op.attributes["pick"])
    dims = op.parsed.operands
    loops = [[loop for group in each for loop in group] for each in dims]
    weight = next(k for k, each in enumerate(loops[:2]) if pick in each)
    rows, out = loops[2], [loop for group in op.parsed.result for loop in group]
    rest = [[loop for loop in each if loop not in rows and loop != pick] for each in loops[:2]]
    mine, own = rest[1 - weight], rest[weight]
    made = [loop for loop in out if loop not in rows]
    letter = {loop: chr(ord("a") + i) for i, loop in enumerate(dict.fromkeys([*mine, *own, *made]))}
    term = ["".join(letter[loop] for loop in each) for each in (mine, own, made)]

    def flat(k: int, first: list[str], others: list[str]) -> Tensor:
        x = split_loops(operands[k], dims[k], local.sizes, (*first, *others))
        return x.reshape([-1, *(local.sizes[loop] for loop in others)])

    x, w = flat(1 - weight, rows, mine), flat(weight, [pick], own)
    ids = split_loops(operands[2], dims[2], local.sizes, rows).reshape(-1) - local.start.get(pick, 0)
    # Of both, so that a device without rows has gradients, too: zeros.
    nothing = 0.0 * (x.flatten()[:1].sum() + w.flatten()[:1].sum())
    y = x.new_zeros([x.shape[0], *(local.sizes[loop] for loop in made)]) + nothing
    for k in range(local.sizes[pick]):
        at = (ids == k).nonzero()[:, 0]
        if len(at):
            y = y.index_add(0, at, torch.einsum(f"z{term[0]},{term[1]}->z{term[2]}", x[at], w[k]))
    if "scale" in op.attributes:
        y = y * float(op.attributes["scale"])  # pyright: ignore[reportArgumentType]
    whole = y.reshape([local.sizes[loop] for loop in (*rows, *made)])
    return join_loops(whole, op.parsed.result, local.sizes, (*rows, *made))
