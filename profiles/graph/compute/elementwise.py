"""Element-wise operators and views on one device's part; those that use an element's position use that in the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from ..operator import Operator
from .draws import kept, normal, uniform
from .loops import Local, join_loops, split_loops
from .picking import picked

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["elementwise", "result_loops", "view"]


def result_loops(op: Operator) -> tuple[str, ...]:
    """Loops of the result in the order of its dimensions."""
    return tuple(loop for group in op.parsed.result for loop in group)


def elementwise(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """One function of each element (docs/training-graphs.md lists them)."""
    import torch

    from ....kernels.training import FUNCTIONS, pointwise

    op, order = local.op, result_loops(local.op)
    fn = str(op.attributes.get("fn", ""))
    xs = [split_loops(x, dims, local.sizes, order) for x, dims in zip(operands, op.parsed.operands, strict=True)]
    if fn in _PLACED:
        y = _PLACED[fn](local, order, xs)
    elif fn in FUNCTIONS:
        y = pointwise(fn, xs, op.attributes)
    else:
        known = ", ".join(sorted({*FUNCTIONS, *_PLACED}))
        raise InputError(f"operator {op.name!r}: cannot run the function {fn!r}; known: {known}")
    # Operators of indices and truth values keep their type; floats are computed in the run's.
    if op.dtype in ("int64", "int32", "int8", "bool"):
        y = y.to(getattr(torch, op.dtype))
    elif not y.dtype.is_floating_point:
        y = y.to(_float(xs))
    return join_loops(y.expand([local.sizes[loop] for loop in order]), op.parsed.result, local.sizes, order)


def _float(xs: Sequence[Tensor]) -> Any:
    import torch

    return next((x.dtype for x in xs if x.dtype.is_floating_point), torch.get_default_dtype())


def _along(local: Local, loop: str, order: Sequence[str]) -> Tensor:
    """Indices of a loop in the whole, shaped to broadcast."""
    return local.index(loop).reshape([-1 if x == loop else 1 for x in order])


def _rope(local: Local, order: Sequence[str], xs: Sequence[Tensor]) -> Tensor:
    """Rotary embedding of the last dimension, halves paired (GPT-NeoX, Llama)."""
    import torch

    (x,), a = xs, local.op.attributes
    half = x.shape[-1] // 2
    rates = float(a["theta"]) ** (-torch.arange(half, dtype=torch.float64) / half)  # pyright: ignore[reportArgumentType]
    angle = _along(local, str(a["position"]), order).to(torch.float64) * rates
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _triangle(local: Local, order: Sequence[str], xs: Sequence[Tensor]) -> Tensor:
    a = local.op.attributes
    above = _along(local, str(a["column"]), order) - _along(local, str(a["row"]), order)
    diagonal = int(a.get("diagonal", 0))  # pyright: ignore[reportArgumentType]
    kept = above <= diagonal if a["fn"] == "tril" else above >= diagonal
    return xs[0].masked_fill(~kept, 0)  # not times 0: there may be infinities


def _full(local: Local, order: Sequence[str], xs: Sequence[Tensor]) -> Tensor:
    import torch

    return torch.full([local.sizes[loop] for loop in order], float(local.op.attributes["value"]))  # pyright: ignore[reportArgumentType]


def _arange(local: Local, order: Sequence[str], xs: Sequence[Tensor]) -> Tensor:
    a: Mapping[str, Any] = local.op.attributes
    return local.index(order[0]) * a.get("step", 1) + a.get("start", 0)


def _one_hot(local: Local, order: Sequence[str], xs: Sequence[Tensor]) -> Tensor:
    return xs[0] == _along(local, str(local.op.attributes["loop"]), order)


def _cumsum(local: Local, order: Sequence[str], xs: Sequence[Tensor]) -> Tensor:
    return xs[0].cumsum(list(order).index(str(local.op.attributes["loop"])))


def _dropout(local: Local, order: Sequence[str], xs: Sequence[Tensor]) -> Tensor:
    p = float(local.op.attributes.get("p", 0.0))  # pyright: ignore[reportArgumentType]
    if p == 0.0:
        return xs[0] + 0.0
    if p >= 1.0:
        return xs[0] * 0.0
    return xs[0] * (kept(local, order, p).to(xs[0].dtype) / (1.0 - p))


def _bernoulli(local: Local, order: Sequence[str], xs: Sequence[Tensor]) -> Tensor:
    import torch

    return kept(local, order, 1.0 - float(local.op.attributes["p"])).to(torch.get_default_dtype())  # pyright: ignore[reportArgumentType]


def _drawn(draw: Callable[[Local, Sequence[str]], Tensor]) -> Callable[[Local, Sequence[str], Sequence[Any]], Tensor]:
    def made(local: Local, order: Sequence[str], xs: Sequence[Tensor]) -> Tensor:
        import torch

        return draw(local, order).to(torch.get_default_dtype())

    return made


_PLACED: Mapping[str, Callable[[Local, Sequence[str], Sequence[Any]], Any]] = MappingProxyType(
    {
        "rope": _rope, "tril": _triangle, "triu": _triangle, "full": _full, "arange": _arange, "one_hot": _one_hot,
        "cumsum": _cumsum, "dropout": _dropout, "bernoulli": _bernoulli, "uniform": _drawn(uniform),
        "normal": _drawn(normal),
    }
)  # fmt: skip
"""Functions that depend on where an element stands, or draw."""


def view(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """Operators that only rearrange elements (docs/training-graphs.md lists them)."""
    import torch

    op, a = local.op, dict[str, Any](local.op.attributes)
    fn, x = str(a.get("fn", "rearrange")), operands[0]
    if fn == "rearrange":
        order = result_loops(op)
        y = split_loops(x, op.parsed.operands[0], local.sizes, order)
        return join_loops(y.expand([local.sizes[loop] for loop in order]), op.parsed.result, local.sizes, order)
    shape = [math.prod(local.sizes[loop] for loop in group) for group in op.parsed.result]
    if fn == "slice":
        step = a.get("step", 1)
        return x.index_select(a["dim"], torch.arange(a["start"], a["start"] + step * shape[a["dim"]], step))
    if fn == "pad":
        widths: list[int] = []
        for d in reversed(range(x.ndim)):
            widths += [a["before"][d], shape[d] - x.shape[d] - a["before"][d]]
        return torch.nn.functional.pad(x, widths, value=float(a["value"]))
    known: Mapping[str, Callable[[], Tensor]] = {
        "select": lambda: x.select(a["dim"], a["index"]),
        "index": lambda: picked(local, x, operands[1], a["dim"]),
        "reshape": lambda: x.reshape(shape),
        "roll": lambda: x.roll(a["shifts"], a["dims"]),
        "flip": lambda: x.flip(a["dims"]),
        "cat": lambda: torch.cat(list(operands), a["dim"]),
    }
    if fn not in known:
        names = ", ".join(("rearrange", "slice", "pad", *known))
        raise InputError(f"operator {op.name!r}: cannot run the view {fn!r}; known: {names}")
    return known[fn]()
