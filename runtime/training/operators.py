"""What operators compute, in torch, on one device's loops; with no loop cut it is the operator itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from ...errors import InputError
from ...profiles.graph import Operator
from ...profiles.graph.notation import Dims
from .loops import Local, join_loops, split_loops
from .statistics import cross_entropy_rows, log_sum_exp, moments

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


def _result_loops(op: Operator) -> tuple[str, ...]:
    return tuple(loop for group in op.parsed.result for loop in group)


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
    out = _result_loops(op)
    y: Tensor = torch.einsum(f"{','.join(terms)}->{''.join(letter[loop] for loop in out)}", *views)
    if "scale" in op.attributes:
        y = y * float(cast("float", op.attributes["scale"]))
    return join_loops(y, op.parsed.result, local.sizes, out)


def contraction_gradient(local: Local, operands: Sequence[Tensor], k: int, gradient: Tensor) -> Tensor:
    """Gradient of the k-th operand of a contraction, as one more contraction: nothing of its forward pass is needed."""
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
    if rows not in local.cut:
        return torch.nn.functional.embedding(ids, table)
    mine = ids - local.start[rows]
    here = (mine >= 0) & (mine < local.sizes[rows])
    found = torch.nn.functional.embedding(mine.clamp(0, local.sizes[rows] - 1), table)
    return found * here[..., None].to(found.dtype)  # rows of others are theirs to add


def _rotated(local: Local, x: Tensor, order: Sequence[str]) -> Tensor:
    """Rotary embedding of the last dimension, halves paired (GPT-NeoX, Llama)."""
    import torch

    op = local.op
    position = str(_attribute(op, "position"))
    half = x.shape[-1] // 2
    rates = float(_attribute(op, "theta")) ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.outer(local.index(position).to(torch.float64), rates)
    at = [local.sizes[position] if loop == position else 1 for loop in order[:-1]]
    cos, sin = (f(angle).to(x.dtype).reshape(*at, half) for f in (torch.cos, torch.sin))
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def _gelu(op: Operator, x: Tensor) -> Tensor:
    import torch

    return torch.nn.functional.gelu(x, approximate=str(op.attributes.get("approximate", "none")))


def _elementwise(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    op, order = local.op, _result_loops(local.op)
    xs = _apart(local, operands, order)
    functions: Mapping[str, Callable[[], Tensor]] = {
        "add": lambda: _fold(xs, torch.add),
        "mul": lambda: _fold(xs, torch.mul),
        "gelu": lambda: _gelu(op, xs[0]),
        "relu": lambda: torch.relu(xs[0]),
        "silu": lambda: torch.nn.functional.silu(xs[0]),
        "tanh": lambda: torch.tanh(xs[0]),
        "sigmoid": lambda: torch.sigmoid(xs[0]),
        "exp": lambda: torch.exp(xs[0]),
        "nonzero": lambda: (xs[0] != 0).to(xs[0].dtype),
        "identity": lambda: xs[0] + 0.0,
        "scale": lambda: xs[0] * float(_attribute(op, "scale")),
        "rope": lambda: _rotated(local, xs[0], order),
    }
    fn = str(_attribute(op, "fn"))
    if fn not in functions:
        raise _unknown(op, fn, tuple(functions))
    y = functions[fn]().expand([local.sizes[loop] for loop in order])
    return join_loops(y, op.parsed.result, local.sizes, order)


def _fold(xs: Sequence[Tensor], fn: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    y = xs[0]
    for x in xs[1:]:
        y = fn(y, x)
    return y


def _statistic(op: Operator) -> tuple[str, ...]:
    return tuple(x.name for x in op.loops if x.split in ("statistic", "whole"))


def _norm(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    op, order = local.op, _result_loops(local.op)
    x, *affine = _apart(local, operands, order)
    over = tuple(loop for loop in order if loop in _statistic(op))
    fn, eps = str(op.attributes.get("fn", "layer")), float(_attribute(op, "eps"))
    if fn not in ("layer", "rms", "batch"):
        raise _unknown(op, fn, ("layer", "rms", "batch"))
    dims = tuple(order.index(loop) for loop in over)
    mean, variance = moments(local, x, dims, over, centred=fn != "rms")
    y = (x - mean if fn != "rms" else x) * torch.rsqrt(variance + eps)
    for i, parameter in enumerate(affine):
        y = y * parameter if i == 0 else y + parameter
    return join_loops(y, op.parsed.result, local.sizes, order)


def _causal(local: Local, scores: Tensor, order: Sequence[str]) -> Tensor:
    """Hide keys that come after their query; −inf."""
    op = local.op
    if not op.attributes.get("causal", False):
        return scores
    query, key = str(_attribute(op, "query")), str(_attribute(op, "key"))
    s = local.index(query).reshape([-1 if loop == query else 1 for loop in order])
    t = local.index(key).reshape([-1 if loop == key else 1 for loop in order])
    return scores.masked_fill(t > s, -math.inf)


def _softmax(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    op, order = local.op, _result_loops(local.op)
    (x,) = _apart(local, operands, order)
    x = _causal(local, x, order)
    over = tuple(loop for loop in order if loop in _statistic(op))
    dims = tuple(order.index(loop) for loop in over)
    if len(dims) == 1 and not local.axes_of(over):
        y = torch.softmax(x, dim=dims[0])
    else:
        y = torch.exp(x - log_sum_exp(local, x, dims, over))
    return join_loops(y, op.parsed.result, local.sizes, order)


def _attention(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """Softmax of scores over the keys, times the values. Where keys are cut, it is a part of a sum."""
    import torch

    op = local.op
    q, k, v = op.parsed.operands
    key, inner = str(_attribute(op, "key")), q[-1][-1]  # the size of a head, the last loop of all three
    out = _result_loops(op)
    order = [loop for loop in out if loop != inner] + [key]
    letter = {loop: chr(ord("a") + i) for i, loop in enumerate(op.parsed.loops)}

    def term(loops: Sequence[str]) -> str:
        return "".join(letter[loop] for loop in loops)

    def flat(dims: Dims) -> list[str]:
        return [loop for group in dims for loop in group]

    xs = [
        x.reshape([local.sizes[loop] for loop in flat(dims)])
        for x, dims in zip(operands, op.parsed.operands, strict=True)
    ]
    scale = float(cast("float", op.attributes.get("scale", 1.0 / math.sqrt(local.full([inner])))))
    scores = torch.einsum(f"{term(flat(q))},{term(flat(k))}->{term(order)}", xs[0], xs[1]) * scale
    scores = _causal(local, scores, order)
    p = torch.exp(scores - log_sum_exp(local, scores, (len(order) - 1,), (key,)))
    y: Tensor = torch.einsum(f"{term(order)},{term(flat(v))}->{term(out)}", p, xs[2])
    return join_loops(y, op.parsed.result, local.sizes, out)


def _convolution(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    op = local.op
    how: dict[str, Any] = {
        name: op.attributes[name] for name in ("stride", "padding", "dilation") if name in op.attributes
    }
    return torch.nn.functional.conv2d(operands[0], operands[1], **how)


def _pool(local: Local, operands: Sequence[Tensor]) -> Tensor:
    import torch

    op = local.op
    how: dict[str, Any] = {name: op.attributes[name] for name in ("stride", "padding") if name in op.attributes}
    fn = str(_attribute(op, "fn"))
    pools: Mapping[str, Callable[..., Any]] = {
        "max": torch.nn.functional.max_pool2d,
        "mean": torch.nn.functional.avg_pool2d,
    }
    if fn not in pools:
        raise _unknown(op, fn, tuple(pools))
    return pools[fn](operands[0], _attribute(op, "kernel"), **how)


def _gate(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """GShard's top-k gate: shares of a token's experts, each at the token's place in its expert's queue.

    First choices queue before second ones, tokens in their order; who finds the queue full is dropped.
    """
    import torch

    op = local.op
    token, expert, place = (str(_attribute(op, name)) for name in ("token", "expert", "place"))
    rest = tuple(loop for loop in _result_loops(op) if loop not in (token, expert, place))
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
        slot = torch.nn.functional.one_hot(at.clamp(max=capacity - 1), capacity).to(x.dtype)
        y = y + shares[..., k, None, None] * fits[..., None] * slot
    return join_loops(y, op.parsed.result, local.sizes, (*rest, token, expert, place))


def _loss(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """Mean (or sum) over the rows of the whole; a part of it where rows are cut."""
    op = local.op
    logits, labels = op.parsed.operands
    rows = tuple(loop for group in labels for loop in group)
    classes = tuple(loop for group in logits for loop in group if loop not in rows)
    (x,) = (split_loops(operands[0], logits, local.sizes, (*rows, *classes)),)
    y = split_loops(operands[1], labels, local.sizes, rows)
    fn = str(op.attributes.get("fn", "cross_entropy"))
    if fn != "cross_entropy" or len(classes) != 1:
        raise _unknown(op, fn, ("cross_entropy",))
    per_row = cross_entropy_rows(local, x, y, classes[0])
    total = per_row.sum()
    return total / local.full(rows) if op.attributes.get("reduction", "mean") == "mean" else total


def _reduction(local: Local, operands: Sequence[Tensor]) -> Tensor:
    op = local.op
    order = op.parsed.loops
    (x,) = _apart(local, operands, order)
    kept = _result_loops(op)
    gone = tuple(i for i, loop in enumerate(order) if loop not in kept)
    fn = str(op.attributes.get("fn", "sum"))
    if fn == "sum" or fn == "mean":
        y = x.sum(dim=gone) if gone else x
        y = y / local.full([order[i] for i in gone]) if fn == "mean" else y
    elif fn == "max":
        if local.axes_of([order[i] for i in gone]):
            raise InputError(f"operator {op.name!r}: the loop of a maximum cannot be cut")
        y = x.amax(dim=gone) if gone else x
    else:
        raise _unknown(op, fn, ("sum", "mean", "max"))
    return join_loops(y, op.parsed.result, local.sizes, [loop for loop in order if loop in kept])


def _view(local: Local, operands: Sequence[Tensor]) -> Tensor:
    op = local.op
    order = op.parsed.loops
    (x,) = _apart(local, operands, order)
    return join_loops(x, op.parsed.result, local.sizes, order)


COMPUTE: Mapping[str, Callable[[Local, Sequence[Any]], Any]] = MappingProxyType(
    {
        "contraction": _contraction,
        "dispatch": _contraction,
        "attention": _attention,
        "convolution": _convolution,
        "embedding": _embedding,
        "gate": _gate,
        "loss": _loss,
        "norm": _norm,
        "softmax": _softmax,
        "reduction": _reduction,
        "pool": _pool,
        "elementwise": _elementwise,
        "view": _view,
    }
)
"""Kind of operator -> what it computes."""
