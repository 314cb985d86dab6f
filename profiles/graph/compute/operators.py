"""What operators compute, in torch, on one device's loops; with no loop cut it is the operator itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from ....errors import InputError
from ..notation import Dims
from ..operator import Operator
from .calls import call
from .draws import kept
from .elementwise import elementwise, result_loops, view
from .grouped import grouped
from .loops import Local, join_loops, split_loops
from .statistics import cross_entropy_rows, log_sum_exp, moments, picked_rows

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["COMPUTE", "compute", "contraction_gradient"]


def compute(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """The result of an operator on one device. Where a free reduced loop is cut, it is a part of a sum.

    Raises
    ------
    InputError
        If nothing is known of the operator's kind or function.
    """
    return COMPUTE[local.op.kind](local, operands)


def _attribute(op: Operator, name: str, default: Any = None) -> Any:
    value = op.attributes.get(name, default)
    if value is None:
        raise InputError(f"operator {op.name!r} of kind {op.kind}: attribute {name!r} is missing")
    return value


def _unknown(op: Operator, what: object, known: Sequence[str]) -> InputError:
    return InputError(f"operator {op.name!r} of kind {op.kind}: cannot run {what!r}; known: {', '.join(known)}")


def _apart(local: Local, operands: Sequence[Tensor], order: Sequence[str]) -> list[Tensor]:
    return [
        split_loops(x, dims, local.sizes, order) for x, dims in zip(operands, local.op.parsed.operands, strict=True)
    ]


def _contraction(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    op = local.op
    letter = {loop: chr(ord("a") + i) for i, loop in enumerate(op.parsed.loops)}
    views: list[Tensor] = []
    terms: list[str] = []
    for x, dims in zip(operands, op.parsed.operands, strict=True):
        have = [loop for group in dims for loop in group]
        views.append(x.reshape([local.sizes[loop] for loop in have]))
        terms.append("".join(letter[loop] for loop in have))
    out = result_loops(op)
    y: Tensor = torch.einsum(f"{','.join(terms)}->{''.join(letter[loop] for loop in out)}", *views)
    if "scale" in op.attributes:
        y = y * float(cast("float", op.attributes["scale"]))
    return join_loops(y, op.parsed.result, local.sizes, out)


def contraction_gradient(local: Local, operands: Sequence[Tensor], k: int, gradient: Tensor) -> Tensor:
    """Gradient of a contraction's k-th operand: itself a contraction, which needs nothing of the forward pass."""
    import torch

    op = local.op
    letter = {loop: chr(ord("a") + i) for i, loop in enumerate(op.parsed.loops)}
    views, terms = list[Any](), list[str]()
    for j, (x, dims) in enumerate(zip((*operands, gradient), (*op.parsed.operands, op.parsed.result), strict=True)):
        if j != k:
            have = [loop for group in dims for loop in group]
            views.append(x.reshape([local.sizes[loop] for loop in have]))
            terms.append("".join(letter[loop] for loop in have))
    mine = [loop for group in op.parsed.operands[k] for loop in group]
    known = [loop for loop in mine if any(letter[loop] in term for term in terms)]
    y: Tensor = torch.einsum(f"{','.join(terms)}->{''.join(letter[loop] for loop in known)}", *views)
    if "scale" in op.attributes:
        y = y * float(cast("float", op.attributes["scale"]))
    y = y.reshape([local.sizes[loop] if loop in known else 1 for loop in mine])
    y = y.expand([local.sizes[loop] for loop in mine])  # what only this operand has, and is summed over
    return y.reshape(operands[k].shape)


def _embedding(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    table, ids = operands
    rows = local.op.parsed.operands[0][0][0]
    padding = local.op.attributes.get("padding_index")  # a row that gets no gradient
    if rows not in local.cut:
        return torch.nn.functional.embedding(ids, table, None if padding is None else int(cast("int", padding)))
    mine = ids - local.start[rows]
    here = (mine >= 0) & (mine < local.sizes[rows])
    at = None if padding is None else int(cast("int", padding)) - local.start[rows]
    at = at if at is not None and 0 <= at < local.sizes[rows] else None
    found = torch.nn.functional.embedding(mine.clamp(0, local.sizes[rows] - 1), table, at)
    return found * here[..., None].to(found.dtype)  # rows of others are theirs to add


def _statistic(op: Operator) -> tuple[str, ...]:
    return tuple(x.name for x in op.loops if x.split in ("statistic", "whole"))


def _norm(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    op, order = local.op, result_loops(local.op)
    x, *affine = _apart(local, operands, order)
    if op.attributes.get("statistics") == "running":
        mean, variance, *affine = affine
        y = (x - mean) * torch.rsqrt(variance + float(_attribute(op, "eps")))
        for i, parameter in enumerate(affine):
            y = y * parameter if i == 0 else y + parameter
        return join_loops(y, op.parsed.result, local.sizes, order)
    over = tuple(loop for loop in order if loop in _statistic(op))
    fn, eps = str(op.attributes.get("fn", "layer")), float(_attribute(op, "eps"))
    if fn not in ("layer", "rms", "batch", "group"):
        raise _unknown(op, fn, ("layer", "rms", "batch", "group"))
    dims = tuple(order.index(loop) for loop in over)
    mean, variance = moments(local, x, dims, over, centred=fn != "rms")
    if local.noted is not None:
        local.noted(mean, variance)
    y = (x - mean if fn != "rms" else x) * torch.rsqrt(variance + eps)
    for i, parameter in enumerate(affine):
        y = y * parameter if i == 0 else y + parameter
    return join_loops(y, op.parsed.result, local.sizes, order)


def _causal(local: Local, scores: Tensor, order: Sequence[str]) -> Tensor:
    """Set the scores of keys that come after their query to −inf."""
    op = local.op
    if not op.attributes.get("causal", False):
        return scores
    query, key = str(_attribute(op, "query")), str(_attribute(op, "key"))
    s = local.index(query).reshape([-1 if loop == query else 1 for loop in order])
    t = local.index(key).reshape([-1 if loop == key else 1 for loop in order])
    return scores.masked_fill(t > s, -math.inf)


def _softmax(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    op, order = local.op, result_loops(local.op)
    (x,) = _apart(local, operands, order)
    x = _causal(local, x, order)
    over = tuple(loop for loop in order if loop in _statistic(op))
    dims = tuple(order.index(loop) for loop in over)
    log = op.attributes.get("fn") == "log_softmax"
    if len(dims) == 1 and not local.axes_of(over) and not log:
        # The fused call, where nothing is cut: it is exact to the bit with what torch's own modules compute.
        y = torch.softmax(x, dim=dims[0])
    else:
        y = x - log_sum_exp(local, x, dims, over)
        y = y if log else torch.exp(y)
    return join_loops(y, op.parsed.result, local.sizes, order)


def _attention(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """Softmax of scores over the keys, times the values. Where keys are cut, it is a part of a sum."""
    import torch

    op = local.op
    q, k, v, *_ = op.parsed.operands
    key, inner = str(_attribute(op, "key")), q[-1][-1]  # the size of a head, the last loop; that of values may differ
    out = result_loops(op)
    order = [loop for loop in out if loop not in (inner, v[-1][-1])] + [key]
    letter = {loop: chr(ord("a") + i) for i, loop in enumerate(op.parsed.loops)}

    def term(loops: Sequence[str]) -> str:
        return "".join(letter[loop] for loop in loops)

    def flat(dims: Dims) -> list[str]:
        return [loop for group in dims for loop in group]

    xs = [
        x.reshape([local.sizes[loop] for loop in flat(dims)])
        for x, dims in zip(operands[:3], op.parsed.operands[:3], strict=True)
    ]
    scale = float(cast("float", op.attributes.get("scale", 1.0 / math.sqrt(local.full([inner])))))
    scores = torch.einsum(f"{term(flat(q))},{term(flat(k))}->{term(order)}", xs[0], xs[1]) * scale
    scores = _causal(local, scores, order)
    for x, dims in zip(operands[3:], op.parsed.operands[3:], strict=True):
        mask = split_loops(x, dims, local.sizes, order)
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    hidden: Tensor | None = None
    if len(operands) > 3 and not local.axes_of((key,)):  # a query that sees no key has zeros, as torch's have
        hidden = (scores == -math.inf).all(-1, keepdim=True)
        scores = scores.masked_fill(hidden, 0.0)
    p = torch.exp(scores - log_sum_exp(local, scores, (len(order) - 1,), (key,)))
    p = p if hidden is None else p.masked_fill(hidden, 0.0)
    dropped = float(cast("float", op.attributes.get("dropout", 0.0)))
    if dropped > 0.0:
        p = p * (kept(local, order, dropped).to(p.dtype) / (1.0 - dropped))
    y: Tensor = torch.einsum(f"{term(order)},{term(flat(v))}->{term(out)}", p, xs[2])
    return join_loops(y, op.parsed.result, local.sizes, out)


def _convolution(local: Local, operands: Sequence[Tensor]) -> Tensor:
    from torch.nn import functional

    x, weight = operands
    a = dict[str, Any](local.op.attributes)
    if a.get("transposed"):
        back = {3: functional.conv_transpose1d, 4: functional.conv_transpose2d, 5: functional.conv_transpose3d}[x.ndim]
        wide = math.prod(local.sizes[loop] for loop in local.op.parsed.result[1])
        return back(
            x, weight, None, a.get("stride", 1), a.get("padding", 0), a.get("output_padding", 0),
            wide // weight.shape[1], a.get("dilation", 1),
        )  # fmt: skip
    call = {3: functional.conv1d, 4: functional.conv2d, 5: functional.conv3d}[x.ndim]
    return call(
        x, weight, None, a.get("stride", 1), a.get("padding", 0), a.get("dilation", 1), x.shape[1] // weight.shape[1]
    )


def _pool(local: Local, operands: Sequence[Tensor]) -> Tensor:
    from torch.nn import functional

    op, x = local.op, operands[0]
    pools: Mapping[tuple[str, int], Callable[..., Any]] = {
        ("max", 3): functional.max_pool1d,
        ("max", 4): functional.max_pool2d,
        ("max", 5): functional.max_pool3d,
        ("mean", 3): functional.avg_pool1d,
        ("mean", 4): functional.avg_pool2d,
        ("mean", 5): functional.avg_pool3d,
    }
    key = str(_attribute(op, "fn")), x.ndim
    if key not in pools:
        raise _unknown(op, key[0], ("max", "mean"))
    stride: Any = op.attributes.get("stride")
    # Of "max" there is nothing that is counted.
    counted: dict[str, Any] = {} if op.attributes.get("count_include_pad", True) else {"count_include_pad": False}
    return pools[key](x, _attribute(op, "kernel"), stride, cast("Any", op.attributes.get("padding", 0)), **counted)


def _gate(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """GShard's top-k gate: shares of a token's experts, each at the token's place in its expert's queue.

    All first choices queue before all second ones, and tokens queue in their order; a token that finds the queue full
    is dropped.
    """
    import torch

    op = local.op
    token, expert, place = (str(_attribute(op, name)) for name in ("token", "expert", "place"))
    rest = tuple(loop for loop in result_loops(op) if loop not in (token, expert, place))
    (x,) = _apart(local, operands, (*rest, token, expert))
    capacity = int(cast("int", _attribute(op, "capacity")))
    shares, chosen = x.topk(int(cast("int", _attribute(op, "top_k"))), dim=-1)
    shares = shares / shares.sum(dim=-1, keepdim=True)
    waiting = torch.zeros((*x.shape[:-2], 1, x.shape[-1]), dtype=torch.int64)
    y = torch.zeros((*x.shape, capacity), dtype=x.dtype)
    for k in range(shares.shape[-1]):
        mine = torch.nn.functional.one_hot(chosen[..., k], x.shape[-1])
        at = (mine.cumsum(dim=-2) - mine + waiting) * mine
        waiting = waiting + mine.sum(dim=-2, keepdim=True)
        fits = (mine * (at < capacity)).to(x.dtype)
        # one_hot refuses places beyond the queue; `fits` is 0 for them, so where they are put does not matter.
        slot = torch.nn.functional.one_hot(at.clamp(max=capacity - 1), capacity).to(x.dtype)
        y = y + shares[..., k, None, None] * fits[..., None] * slot
    return join_loops(y, op.parsed.result, local.sizes, (*rest, token, expert, place))


def _loss(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """Mean (or sum) over the rows of the whole; a part of it where rows are cut. Without reduction one for each row."""
    import torch

    op = local.op
    fn, how = str(op.attributes.get("fn", "cross_entropy")), str(op.attributes.get("reduction", "mean"))
    if fn == "mse":
        order = op.parsed.loops
        x, y = _apart(local, operands, order)
        squares = (x - y).square().expand([local.sizes[loop] for loop in order])
        if how == "none":
            return join_loops(squares, op.parsed.result, local.sizes, order)
        return squares.sum() / local.full(order) if how == "mean" else squares.sum()
    logits, labels = op.parsed.operands
    rows = tuple(loop for group in labels for loop in group)
    classes = tuple(loop for group in logits for loop in group if loop not in rows)
    if fn not in ("cross_entropy", "nll") or len(classes) != 1:
        raise _unknown(op, fn, ("cross_entropy", "nll", "mse"))
    x = split_loops(operands[0], logits, local.sizes, (*rows, *classes))
    y = split_loops(operands[1], labels, local.sizes, rows)
    counted = y != int(cast("int", op.attributes.get("ignore_index", -100)))
    y = torch.where(counted, y, 0)
    per_row = picked_rows(local, x, y, classes[0]) if fn == "nll" else cross_entropy_rows(local, x, y, classes[0])
    per_row = torch.where(counted, per_row, 0.0)
    if how == "none":
        return join_loops(per_row, op.parsed.result, local.sizes, rows)
    if how == "sum":
        return per_row.sum()
    if "ignore_index" not in op.attributes:
        return per_row.sum() / local.full(rows)
    number = counted.sum().to(per_row.dtype)  # of the whole: rows of others count too
    return per_row.sum() / local.total(number, local.axes_of(rows))


def _reduction(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    op = local.op
    order = op.parsed.loops
    (x,) = _apart(local, operands, order)
    kept = result_loops(op)
    gone = tuple(i for i, loop in enumerate(order) if loop not in kept)
    fn = str(op.attributes.get("fn", "sum"))
    if fn == "sum" or fn == "mean":
        y = x.sum(dim=gone) if gone else x
        y = y / local.full([order[i] for i in gone]) if fn == "mean" else y
    elif fn in ("max", "min", "argmax"):
        if local.axes_of([order[i] for i in gone]):
            raise InputError(f"operator {op.name!r}: the loop of a {fn} cannot be cut; it is no sum")
        if fn == "argmax" and not gone:
            y = torch.zeros_like(x, dtype=torch.int64)  # of one element each
        elif fn == "argmax":
            y = x.movedim(gone, tuple(range(-len(gone), 0))).flatten(-len(gone)).argmax(-1)
        else:
            y = (x.amax(dim=gone) if fn == "max" else x.amin(dim=gone)) if gone else x
    else:
        raise _unknown(op, fn, ("sum", "mean", "max", "min", "argmax"))
    return join_loops(y, op.parsed.result, local.sizes, [loop for loop in order if loop in kept])


COMPUTE: Mapping[str, Callable[[Local, Sequence[Any]], Any]] = MappingProxyType(
    {
        "contraction": _contraction,
        "dispatch": _contraction,
        "grouped": grouped,
        "attention": _attention,
        "convolution": _convolution,
        "embedding": _embedding,
        "gate": _gate,
        "loss": _loss,
        "norm": _norm,
        "softmax": _softmax,
        "reduction": _reduction,
        "pool": _pool,
        "elementwise": elementwise,
        "view": view,
        "call": call,
    }
)
"""Kind of operator -> what it computes."""
