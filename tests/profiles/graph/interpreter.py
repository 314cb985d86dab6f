"""A plain interpreter of graphs, written from the table in docs/training-graphs.md: the oracle's other half."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import torch
from meshwright.kernels.training import pointwise
from meshwright.profiles.graph import Graph, Operator
from torch import Tensor
from torch.nn import functional as F

DTYPES = {name: getattr(torch, name) for name in ("float64", "bfloat16", "float16", "int64", "int32", "int8", "bool")}
DTYPES["float32"] = torch.float64  # the oracle computes in float64 what the graph says in float32


def run(graph: Graph, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every result of the graph, from its inputs and parameters."""
    made = dict(values)
    for op in graph.operators:
        out = execute(op, [made[name] for name in op.inputs])
        assert tuple(out.shape) == op.shape, (op.name, tuple(out.shape), op.shape)
        made[op.name] = out.to(DTYPES[op.dtype])
    return made


def execute(op: Operator, xs: list[Tensor]) -> Tensor:
    """One operator."""
    return globals()[f"_{op.kind}"](op, xs)


def _names(op: Operator, split: str) -> tuple[str, ...]:
    return tuple(x.name for x in op.loops if x.split == split)


def _flat(op: Operator, k: int) -> list[str]:
    return [x for group in op.parsed.operands[k] for x in group]


def _spread(op: Operator, k: int, x: Tensor, order: list[str]) -> Tensor:
    """Operand k with one dimension per loop, in the given order; size 1 for a loop that it lacks."""
    has, sizes = _flat(op, k), op.sizes
    x = x.reshape([sizes[n] for n in has]).permute([has.index(n) for n in order if n in has])
    return x.reshape([sizes[n] if n in has else 1 for n in order])


def _result(op: Operator) -> list[str]:
    return [x for group in op.parsed.result for x in group]


def _contraction(op: Operator, xs: list[Tensor]) -> Tensor:
    number = {x.name: i for i, x in enumerate(op.loops)}
    sizes = op.sizes
    args: list[Any] = []
    for k, x in enumerate(xs):
        args += [x.reshape([sizes[n] for n in _flat(op, k)]), [number[n] for n in _flat(op, k)]]
    out = torch.einsum(*args, [number[n] for n in _result(op)]).reshape(op.shape)
    return out * op.attributes.get("scale", 1.0)


_dispatch = _contraction


def _convolution(op: Operator, xs: list[Tensor]) -> Tensor:
    a = op.attributes
    if a.get("transposed"):
        return _transposed_convolution(op, xs[0], xs[1])
    groups = xs[0].shape[1] // xs[1].shape[1]
    call = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[xs[0].ndim - 2]
    return call(xs[0], xs[1], None, a["stride"], a["padding"], a["dilation"], groups)


def _transposed_convolution(op: Operator, x: Tensor, w: Tensor) -> Tensor:
    """Every element of x puts a kernel into the result, at stride · its place − padding + dilation · the kernel's."""
    a, space = op.attributes, range(x.ndim - 2)
    groups = op.shape[1] // w.shape[1]
    apart = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    kernels = w.reshape(groups, -1, *w.shape[1:])
    room = [max(a["stride"][k] * x.shape[2 + k] + a["dilation"][k] * w.shape[2 + k], op.shape[2 + k] + a["padding"][k])
            for k in space]  # fmt: skip
    out = x.new_zeros(op.shape[0], groups, w.shape[1], *room)
    for at in itertools.product(*(range(n) for n in w.shape[2:])):
        put = torch.einsum("bgc...,gck->bgk...", apart, kernels[(slice(None), slice(None), slice(None), *at)])
        starts = [a["dilation"][k] * at[k] for k in space]
        ends = [starts[k] + a["stride"][k] * (x.shape[2 + k] - 1) + 1 for k in space]
        out[(..., *(slice(s, e, a["stride"][k]) for k, s, e in zip(space, starts, ends, strict=True)))] += put
    cropped = [slice(a["padding"][k], a["padding"][k] + op.shape[2 + k]) for k in space]
    return out[(..., *cropped)].reshape(op.shape)


def _embedding(op: Operator, xs: list[Tensor]) -> Tensor:
    return F.embedding(xs[1], xs[0], op.attributes.get("padding_index"))


def _norm(op: Operator, xs: list[Tensor]) -> Tensor:
    order, a = _result(op), op.attributes
    over = [order.index(n) for n in _names(op, "statistic")]
    x = _spread(op, 0, xs[0], order)
    if a.get("statistics") == "running":
        mean, variance, *affine = (_spread(op, k, xs[k], order) for k in range(1, len(xs)))
        y = (x - mean) / (variance + a["eps"]).sqrt()
        y = y * affine[0] + affine[1] if affine else y
        return y.reshape(op.shape)
    x, over = x[..., None], [*over, len(order)]  # one of them may be all there is: [] is every dimension
    if a["fn"] == "rms":
        y = x * (x.square().mean(over, keepdim=True) + a["eps"]).rsqrt()
    else:
        centred = x - x.mean(over, keepdim=True)
        y = centred * (centred.square().mean(over, keepdim=True) + a["eps"]).rsqrt()
    y = y[..., 0]
    if len(xs) > 1:
        y = y * _spread(op, 1, xs[1], order)
    if len(xs) > 2:
        y = y + _spread(op, 2, xs[2], order)
    return y.reshape(op.shape)


def _later(op: Operator, order: list[str], x: Tensor) -> Tensor:
    def positions(loop: str) -> Tensor:
        shape = [-1 if n == loop else 1 for n in order]
        return torch.arange(op.sizes[loop], device=x.device).reshape(shape)

    return positions(op.attributes["key"]) > positions(op.attributes["query"])


def _softmax(op: Operator, xs: list[Tensor]) -> Tensor:
    order = _result(op)
    over = [order.index(n) for n in _names(op, "statistic") or _names(op, "whole")]
    x = _spread(op, 0, xs[0], order)
    if op.attributes.get("causal"):
        x = x.masked_fill(_later(op, order, x), -math.inf)
    y = x - x[..., None].logsumexp([*over, len(order)], keepdim=True)[..., 0]
    return (y if op.attributes.get("fn") == "log_softmax" else y.exp()).reshape(op.shape)


def _attention(op: Operator, xs: list[Tensor]) -> Tensor:
    a, key = op.attributes, op.attributes["key"]
    order = [*[n for n in _result(op) if n in _flat(op, 0)], key]
    values = _flat(op, 2)
    summed = [n for n in order if n in _flat(op, 0) and n in _flat(op, 1) and n == order[-2]]
    q, k = _spread(op, 0, xs[0], order), _spread(op, 1, xs[1], order)
    scores = (q * k).sum([order.index(n) for n in summed], keepdim=True) * a["scale"]
    if a.get("causal"):
        scores = scores.masked_fill(_later(op, order, scores), -math.inf)
    if len(xs) > 3:
        mask = _spread(op, 3, xs[3], order)
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1)
    assert key in values
    return (weights * _spread(op, 2, xs[2], order)).sum(-1).reshape(op.shape)


def _gate(op: Operator, xs: list[Tensor]) -> Tensor:
    (p,), a = xs, op.attributes
    groups, tokens, experts = p.shape
    out = p.new_zeros(*p.shape, a["capacity"])
    for g in range(groups):  # one token at a time, as the words say it
        shares = p[g].detach().tolist()
        choices = [sorted(range(experts), key=lambda e, row=row: (-row[e], e))[: a["top_k"]] for row in shares]
        queue = [0] * experts
        for k in range(a["top_k"]):
            for t in range(tokens):
                e = choices[t][k]
                if queue[e] < a["capacity"]:
                    share = p[g, t, e] / sum(p[g, t, c] for c in choices[t])
                    out = out.index_put(tuple(torch.tensor([i]) for i in (g, t, e, queue[e])), share[None])
                queue[e] += 1
    return out


def _loss(op: Operator, xs: list[Tensor]) -> Tensor:
    a = op.attributes
    if a["fn"] == "mse":
        return F.mse_loss(xs[0], xs[1], reduction=a["reduction"])
    (classes,) = _names(op, "statistic")
    axis = [g[0] if g else "" for g in op.parsed.operands[0]].index(classes)
    logits = xs[0].movedim(axis, -1).flatten(0, -2)
    return F.cross_entropy(logits, xs[1].flatten(), reduction=a["reduction"], ignore_index=a.get("ignore_index", -100))


def _reduction(op: Operator, xs: list[Tensor]) -> Tensor:
    kept = _result(op)
    gone = [n for n in _flat(op, 0) if n not in kept]
    x = _spread(op, 0, xs[0], [*kept, *gone])
    over = list(range(len(kept), len(kept) + len(gone)))
    if op.attributes["fn"] == "argmax":
        return x[..., None].flatten(len(kept)).argmax(-1).reshape(op.shape)
    fn = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}[op.attributes["fn"]]
    return (fn(x, over) if over else x).reshape(op.shape)


def _pool(op: Operator, xs: list[Tensor]) -> Tensor:
    a = op.attributes
    call = {("max", 4): F.max_pool2d, ("mean", 4): F.avg_pool2d, ("max", 3): F.max_pool1d, ("mean", 3): F.avg_pool1d,
            ("max", 5): F.max_pool3d, ("mean", 5): F.avg_pool3d}  # fmt: skip
    pooled = call[a["fn"], xs[0].ndim](xs[0], a["kernel"], a["stride"], a["padding"])
    if a.get("count_include_pad", True):
        return pooled
    return pooled / call[a["fn"], xs[0].ndim](torch.ones_like(xs[0]), a["kernel"], a["stride"], a["padding"])


def _elementwise(op: Operator, xs: list[Tensor]) -> Tensor:
    a, order = op.attributes, _result(op)
    fn, sizes = str(a["fn"]), [op.sizes[n] for n in order]
    ops = [_spread(op, k, x, order) for k, x in enumerate(xs)]
    if fn == "full":
        return torch.full(op.shape, float(a["value"]), dtype=torch.float64).to(DTYPES[op.dtype])
    if fn == "arange":
        return (torch.arange(op.shape[0], dtype=DTYPES[op.dtype]) * a.get("step", 1)) + a.get("start", 0)
    if fn in ("tril", "triu"):
        rows, columns = order.index(a["row"]), order.index(a["column"])
        assert (rows, columns) == (len(order) - 2, len(order) - 1)
        return getattr(torch, fn)(ops[0], a.get("diagonal", 0)).reshape(op.shape)
    if fn == "one_hot":
        return F.one_hot(xs[0], op.sizes[a["loop"]])
    if fn == "cumsum":
        return ops[0].cumsum(order.index(a["loop"])).reshape(op.shape)
    if fn == "rope":
        x, at = ops[0], order.index(a["position"])
        half = sizes[-1] // 2
        turn = a["theta"] ** (-torch.arange(half, dtype=x.dtype) / half)
        angle = torch.arange(sizes[at], dtype=x.dtype).reshape([-1 if i == at else 1 for i in range(len(order))]) * turn
        first, second = x[..., :half], x[..., half:]
        return torch.cat((first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()), -1)
    out = ops[0].to(DTYPES[op.dtype]) if fn == "cast" else pointwise(fn, ops, a)
    return out.expand(sizes).reshape(op.shape)


def _view(op: Operator, xs: list[Tensor]) -> Tensor:
    a, fn = op.attributes, op.attributes.get("fn", "rearrange")
    if fn == "slice":
        dim = a["dim"]
        span = range(a["start"], a["start"] + a.get("step", 1) * op.shape[dim], a.get("step", 1))
        return xs[0].index_select(dim, torch.tensor(list(span)))
    if fn == "select":
        return xs[0].select(a["dim"], a["index"])
    if fn == "index":
        return xs[0][(slice(None),) * a["dim"] + (xs[1],)]
    if fn == "reshape":
        return xs[0].reshape(op.shape)
    if fn == "pad":
        widths = [w for dim in reversed(range(xs[0].ndim))
                  for w in (a["before"][dim], op.shape[dim] - xs[0].shape[dim] - a["before"][dim])]  # fmt: skip
        return F.pad(xs[0], widths, value=float(a["value"]))
    if fn == "roll":
        return xs[0].roll(a["shifts"], a["dims"])
    if fn == "flip":
        return xs[0].flip(a["dims"])
    if fn == "cat":
        return torch.cat(xs, a["dim"])
    order = _result(op)
    return _spread(op, 0, xs[0], order).expand([op.sizes[n] for n in order]).reshape(op.shape)
