"""Run a call alone: which operands backward reaches, what it keeps, its FLOPs, and whether its rows are independent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...notation import Dims
from ...operator import Operator
from ..calls import relative

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Backward", "backward_of", "why_not_by_rows"]

APART = 1e-10
"""Rows computed alone and together, in float64: more than this part of the largest element is no rounding."""

ROWS = 6
PIECES = (1, 2, 3)
"""Rows that are computed together, and how many of them alone: pieces of every size that divides them."""

ELEMENTS = 1 << 22
FLOPS = 2e8
"""Elements and FLOPs of a call that is probed, a fraction of a second; larger ones are probed on smaller sizes. Both
numbers are guesses."""

KEPT = 8
"""Sizes up to this stay as they are where sizes are made smaller: they are kernels, groups and the like."""

DRAWS = 2
"""Draws on which rows are compared, of those that the call can be run on."""


@dataclass(frozen=True, slots=True)
class Backward:
    """What autograd does with a call.

    Parameters
    ----------
    reached : tuple of bool
        For every operand whether the result has a gradient with respect to it.
    saves : tuple of int
        What it keeps: positions of operands, −1 for the result or anything of its own.
    flops : float
        Forward FLOPs as torch counts them; 0 where it does not know.
    """

    reached: tuple[bool, ...]
    saves: tuple[int, ...]
    flops: float


def backward_of(op: Operator, dtypes: Sequence[str], wants: Sequence[bool]) -> Backward:
    """What autograd does with a call, on tensors without data; on random numbers where torch cannot do it so.

    Raises
    ------
    Exception
        What torch raises for a call that it cannot compute or has no gradient of.
    """
    import torch

    shapes = [op.shape_of(dims) for dims in op.parsed.operands]
    try:
        meta = [torch.empty(s, dtype=_dtype(d), device="meta") for s, d in zip(shapes, dtypes, strict=True)]
        return _backward(op, meta, wants)
    except (RuntimeError, NotImplementedError):  # no kernel without data: of some, torch has only real ones
        if sum(map(math.prod, shapes)) > ELEMENTS:
            raise
        failure: Exception | None = None
        for values in _drawn(shapes, dtypes):
            try:
                return _backward(op, values, wants)
            except Exception as error:
                failure = failure or error
        raise failure from None  # type: ignore[misc]  # there is at least one draw


def _backward(op: Operator, values: Sequence[Tensor], wants: Sequence[bool]) -> Backward:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from ...compute import Local, compute

    leaves = [x.requires_grad_(w) for x, w in zip(values, wants, strict=True)]
    kept: list[Any] = []

    def pack(x: Any) -> Any:
        kept.append(x.untyped_storage()._cdata)
        return x

    counter = FlopCounterMode(display=False)
    with torch.enable_grad(), torch.random.fork_rng(devices=[]), torch.device("cpu"):
        with counter, torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            made = compute(Local.of(op), leaves)
        flops = float(counter.get_total_flops())
        asked = [k for k, w in enumerate(wants) if w]
        if not asked or not made.requires_grad:
            return Backward((False,) * len(leaves), (), flops)
        found = torch.autograd.grad(made, [leaves[k] for k in asked], torch.ones_like(made), allow_unused=True)
    reached = {k for k, g in zip(asked, found, strict=True) if g is not None}
    own = {x.untyped_storage()._cdata: k for k, x in enumerate(leaves)}
    saves = {own.get(x, -1) for x in kept}
    return Backward(tuple(k in reached for k in range(len(leaves))), tuple(sorted(saves)), flops)


def why_not_by_rows(op: Operator, dtypes: Sequence[str], wants: Sequence[bool]) -> str:
    """Why a call is not cut over its rows; "" if rows computed alone are the rows of the whole, gradients too.

    Parameters
    ----------
    op : Operator
        The call; its loop that attribute ``rows`` names stands first in one dimension of the result.
    dtypes : sequence of str
        Of the operands.
    wants : sequence of bool
        Operands that backward reaches.
    """
    rows = str(op.attributes["rows"])
    flops_of_row = op.flops / op.sizes[rows]
    for small in _smaller(op, rows):
        probe = _sized(op, small | {rows: ROWS})
        shapes = [probe.shape_of(dims) for dims in probe.parsed.operands]
        shrink = math.prod(probe.shape_of(probe.parsed.result)) / (math.prod(op.shape) / op.sizes[rows] * ROWS)
        if sum(map(math.prod, shapes)) > ELEMENTS or (not small and flops_of_row * ROWS * shrink > FLOPS):
            continue
        if small and not _accepted(probe, shapes, dtypes):
            continue
        found = (_compared(probe, rows, values, wants) for values in _drawn(shapes, dtypes))
        known = list(islice((apart for apart in found if apart is not None), DRAWS))
        if known:
            return "" if max(known) <= APART else "its rows depend on each other"
        if not small:
            return "it cannot be run on random numbers"
    return "it is too large to be probed"


def _smaller(op: Operator, rows: str) -> Iterator[dict[str, int]]:
    """Maps of loops to smaller sizes: none; all that a power of two divides, by the largest first; one size each."""
    large = {x.name: x.size for x in op.loops if x.name != rows and x.size > KEPT}
    yield {}
    for power in range(12, 0, -1):
        divided = {name: n >> power for name, n in large.items() if n % (1 << power) == 0 and n >> power > 1}
        if divided:
            yield divided
    for size in sorted(set(large.values()), reverse=True):
        yield {name: 4 for name, n in large.items() if n == size}


def _sized(op: Operator, sizes: Mapping[str, int]) -> Operator:
    return replace(op, loops=tuple(replace(x, size=sizes.get(x.name, x.size)) for x in op.loops))


def _accepted(op: Operator, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> bool:
    """Whether torch takes operands of other sizes, and the result has the rows in the same place."""
    import torch

    from ...compute import Local, compute

    try:
        meta = [torch.empty(s, dtype=_dtype(d), device="meta") for s, d in zip(shapes, dtypes, strict=True)]
        made = compute(Local.of(op), meta)
    except Exception:  # sizes under which torch refuses the call are none to probe with
        return False
    place = _place(op.parsed.result, str(op.attributes["rows"]))
    return made.ndim == len(op.parsed.result) and place is not None and made.shape[place] % ROWS == 0


def _compared(op: Operator, rows: str, values: Sequence[Tensor], wants: Sequence[bool]) -> float | None:
    """The largest relative difference of rows alone from rows together; None if the call cannot be run on these."""
    import torch

    places = [_place(dims, rows) for dims in (*op.parsed.operands, op.parsed.result)]
    if places[-1] is None:
        return math.inf
    try:
        whole, gradients, weights = _run(op, ROWS, values, wants, None)
    except Exception:  # torch refuses these numbers
        return None
    if not bool((whole.isfinite() & (whole != 0)).any()) or whole.shape[places[-1]] % ROWS:
        return None
    worst = 0.0
    for piece in PIECES:
        parts: list[tuple[Tensor, list[Tensor]]] = []
        for first in range(0, ROWS, piece):
            mine = [x if d is None else _rows(x, d, first, piece) for x, d in zip(values, places, strict=False)]
            try:
                y, own, _ = _run(op, piece, mine, wants, _rows(weights, places[-1], first, piece))
            except Exception:  # what takes all rows and refuses some depends on them
                return math.inf
            parts.append((y, own))
        worst = max(worst, relative(whole, torch.cat([y for y, _ in parts], places[-1])))
        for k, (g, d) in enumerate(zip(gradients, (places[i] for i, w in enumerate(wants) if w), strict=True)):
            own = [part[k] for _, part in parts]
            # Of what has no rows, every piece gives a part of a sum.
            worst = max(worst, relative(g, torch.stack(own).sum(0) if d is None else torch.cat(own, d)))
    return worst


def _run(
    op: Operator, rows: int, values: Sequence[Tensor], wants: Sequence[bool], weights: Tensor | None
) -> tuple[Tensor, list[Tensor], Tensor]:
    """The result on so many rows, and gradients of a weighted sum of it."""
    import torch

    from ...compute import Local, compute

    local = Local(op, op.sizes | {str(op.attributes["rows"]): rows})
    with torch.enable_grad(), torch.random.fork_rng(devices=[]), torch.device("cpu"):
        leaves = [x.detach().clone().requires_grad_(w) for x, w in zip(values, wants, strict=True)]
        made = compute(local, leaves)
        if weights is None:
            draw = torch.Generator().manual_seed(1)
            weights = torch.randn(made.shape, generator=draw, dtype=torch.float64)
        asked = [x for x, w in zip(leaves, wants, strict=True) if w]
        found = torch.autograd.grad(made, asked, weights, allow_unused=True) if asked else ()
    zeros = [torch.zeros_like(x) if g is None else g for x, g in zip(asked, found, strict=True)]
    return made.detach(), zeros, weights


def _place(dims: Dims, rows: str) -> int | None:
    return next((d for d, group in enumerate(dims) if rows in group), None)


def _rows(x: Tensor, dim: int, first: int, count: int) -> Tensor:
    each = x.shape[dim] // ROWS
    return x.narrow(dim, first * each, count * each)


def _drawn(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> Iterator[list[Tensor]]:
    """Random values: any numbers, positive ones, and matrices that have a Cholesky factor."""
    import torch

    for seed in range(DRAWS):
        for how in ("any", "positive", "definite"):
            draw = torch.Generator().manual_seed(seed)
            found: list[Tensor] = []
            for shape, name in zip(shapes, dtypes, strict=True):
                if _dtype(name).is_floating_point:
                    x = torch.randn(shape, generator=draw, dtype=torch.float64)
                    if how == "definite" and len(shape) > 1 and shape[-1] == shape[-2]:
                        x = x @ x.mT + shape[-1] * torch.eye(shape[-1], dtype=torch.float64)
                    found.append(x if how == "any" else x.abs() + 0.1 if how == "positive" else x)
                else:
                    x = torch.randint(0, 2, shape, generator=draw, dtype=torch.int64)
                    found.append(x.to(_dtype(name)))
            yield found


def _dtype(name: str) -> Any:
    import torch

    dtype = getattr(torch, name)
    return torch.float64 if dtype.is_floating_point else dtype
