"""Aten operators that multiply: linear layers, matrix products, einsum, convolutions, attention, embeddings."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from ..operator import Scalar
from .draft import Axes
from .elementwise import pointwise
from .step import Handler, Result, Step, values
from .values import ONE, Size, Value, total

__all__ = ["HANDLERS"]


def _product(step: Step, x: Value, left: Sequence[Hashable], y: Value, right: Sequence[Hashable],
             result: Sequence[Hashable], **attributes: Scalar) -> Value:  # fmt: skip
    """A contraction of two tensors; axes of size 1 that the other repeats are broadcast."""
    grown = {label for v, labels in ((x, left), (y, right)) for dim, label in zip(v.dims, labels, strict=True) if dim}
    labels = [[a if a in grown and dim else None for dim, a in zip(v.dims, side, strict=True)]
              for v, side in ((x, left), (y, right))]  # fmt: skip
    saves = (*((0,) if y.grad else ()), *((1,) if x.grad else ()))
    return step.draft.add(
        step.word, "contraction", Axes([(x, labels[0]), (y, labels[1])], [a if a in grown else None for a in result]),
        dtype=step.dtypes[0], saves=saves, attributes=attributes,
    )  # fmt: skip


def _biased(step: Step, y: Value, bias: Value | None, axis: int = -1) -> Value:
    """The sum with a bias that lies along one axis, or with a tensor that broadcasts."""
    if bias is None:
        return y
    if axis == -1:
        return pointwise(step, "add", [y, bias], word="add")
    labels = [k if dim else None for k, dim in enumerate(y.dims)]
    return step.draft.add(
        "add", "elementwise", Axes([(y, labels), (bias, [axis if bias.dims[0] else None])], labels),
        attributes={"fn": "add"},
    )  # fmt: skip


def _linear(step: Step) -> Result:
    x, w, bias = step.args["input"], step.args["weight"], step.args["bias"]
    rank = len(x.dims)
    y = _product(step, x, range(rank), w, ["out", rank - 1], [*range(rank - 1), "out"])
    return _biased(step, y, bias)


def _matmul(step: Step) -> Result:
    x, y = values(step.args.values())[:2]
    batch = max(len(x.dims), len(y.dims), 2) - 2
    left = [*range(batch), "i", "k"][-len(x.dims) :] if len(x.dims) > 1 else ["k"]
    right = [*range(batch), "k", "j"][-len(y.dims) :] if len(y.dims) > 1 else ["k"]
    result = [*range(batch), *(["i"] if len(x.dims) > 1 else []), *(["j"] if len(y.dims) > 1 else [])]
    return _product(step, x, left, y, right, result)


def _addmm(step: Step) -> Result:
    a = step.args
    names = ("mat1", "mat2") if "mat1" in a else ("batch1", "batch2")
    x, y, plus = a[names[0]], a[names[1]], a["self"]
    batch = list(range(len(x.dims) - 2))
    scale: dict[str, Scalar] = {} if a["alpha"] == 1 else {"scale": float(a["alpha"])}
    product = _product(step, x, [*batch, "i", "k"], y, [*batch, "k", "j"], [*batch, "i", "j"], **scale)
    if a["beta"] == 0:
        return product
    if a["beta"] != 1:
        plus = pointwise(step, "scale", [plus], word="scale", factor=float(a["beta"]))
    return _biased(step, product, plus)


def _einsum(step: Step) -> Result:
    equation, operands = step.args["equation"].replace(" ", ""), values(step.args["tensors"])
    left, _, right = equation.partition("->")
    terms = left.split(",")
    if "->" not in equation:
        letters = [c for c in left if c.isalpha()]
        right = ("..." if "..." in left else "") + "".join(c for c in sorted(set(letters)) if letters.count(c) == 1)
    room = max((len(v.dims) - len(t.replace("...", "")) for v, t in zip(operands, terms, strict=True) if "..." in t),
               default=0)  # fmt: skip

    def labels(term: str, rank: int) -> list[Hashable]:
        head, dots, tail = term.partition("...")
        count = rank - len(head) - len(tail)
        return [*head, *(range(room - count, room) if dots else ()), *tail]

    sides = [labels(t, len(v.dims)) for t, v in zip(terms, operands, strict=True)]
    if any(len(set(side)) < len(side) for side in sides):
        raise step.unknown("diagonals in einsum are not known")
    result = labels(right, len(step.sizes[0]))
    if len(operands) == 2:
        return _product(step, operands[0], sides[0], operands[1], sides[1], result)
    grown = {a for v, side in zip(operands, sides, strict=True) for dim, a in zip(v.dims, side, strict=True) if dim}
    shown = [[a if dim else None for dim, a in zip(v.dims, side, strict=True)]
             for v, side in zip(operands, sides, strict=True)]  # fmt: skip
    several = len(operands) > 1
    lined = Axes(list(zip(operands, shown, strict=True)), [a if a in grown else None for a in result])
    return step.draft.add(
        "einsum", "contraction" if several else "reduction", lined, dtype=step.dtypes[0],
        saves=range(len(operands)) if several else (), attributes={} if several else {"fn": "sum"},
    )  # fmt: skip


def _convolution(step: Step) -> Result:
    a = step.args
    x, w, bias, groups = a["input"], a["weight"], a["bias"], a["groups"]
    space = len(w.dims) - 2
    if a.get("transposed"):
        return _transposed(step)
    if len(x.dims) != space + 2:
        raise step.unknown("expects a batch dimension")
    stride, dilation = (_each(a[key], space) for key in ("stride", "dilation"))
    if isinstance(a["padding"], str):
        kernel = [total(dim)[0] for dim in w.dims[2:]]
        around = [0 if a["padding"] == "valid" else d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        if any(n % 2 for n in around):
            raise step.unknown("padding that is not the same on both sides is not known")
        padding = tuple(n // 2 for n in around)
    else:
        padding = _each(a["padding"], space)
    into, out, kernel = ([f"{what} {k}" for k in range(space)] for what in ("in", "out", "kernel"))
    sizes: dict[Hashable, Size] = {out[k]: step.sizes[0][2 + k] for k in range(space)}
    if groups == 1:
        operands = [(x, ["b", "c", *into]), (w, ["k", "c", *kernel])]
        result: list[Hashable] = ["b", "k", *out]
    else:  # groups are the major part of both channel dimensions
        channels, wide = total(w.dims[1]), total(w.dims[0])[0] // groups
        sizes |= {"g": (groups, groups), "c": channels, "k": (wide, wide)}
        # A depthwise convolution has one channel in a group: the weight's dimension is of size 1.
        inner = "c" if channels != ONE else None
        operands = [(x, ["b", ("g", "c"), *into]), (w, [("g", "k"), inner, *kernel])]
        result = ["b", ("g", "k"), *out]
    shown = [(v, [n if dim or isinstance(n, tuple) else None for n, dim in zip(labels, v.dims, strict=True)])
             for v, labels in operands]  # fmt: skip
    lined = Axes(
        shown,
        [n if isinstance(n, tuple) or step.sizes[0][i] != ONE else None for i, n in enumerate(result)],
        sizes=sizes,
        splits=dict.fromkeys((*into, *out, *kernel), "whole"),
    )
    y = step.draft.add(
        "conv", "convolution", lined, dtype=step.dtypes[0],
        saves=(*((0,) if w.grad else ()), *((1,) if x.grad else ())),
        flops=2.0 * math.prod(s[0] for s in step.sizes[0]) * math.prod(total(dim)[0] for dim in w.dims[1:]),
        attributes={"stride": stride, "padding": padding, "dilation": dilation},
    )  # fmt: skip
    return _biased(step, y, bias, 1)


def _transposed(step: Step) -> Result:
    """A transposed convolution: the weight is (in, out / groups, kernel), each element of x meets all of a kernel."""
    a = step.args
    x, w, groups = a["input"], a["weight"], a["groups"]
    space = len(w.dims) - 2
    if len(x.dims) != space + 2:
        raise step.unknown("expects a batch dimension")
    into, out, kernel = ([f"{what} {k}" for k in range(space)] for what in ("in", "out", "kernel"))
    channels, wide = total(w.dims[0])[0] // groups, total(w.dims[1])
    grouped: dict[Hashable, Size] = {"g": (groups, groups), "c": (channels, channels), "k": wide}
    sizes = {label: size for label, size in grouped.items() if size != ONE}
    sizes |= {out[k]: step.sizes[0][2 + k] for k in range(space) if step.sizes[0][2 + k] != ONE}

    def group(inner: str) -> Hashable | None:  # groups are the major part of both channel dimensions
        there = tuple(label for label in ("g", inner) if label in sizes)
        return there if len(there) > 1 else there[0] if there else None

    narrow = "k" if "k" in sizes else None
    shown = [
        (x, ["b" if x.dims[0] else None, group("c"), *_shown(into, x)]),
        (w, [group("c"), narrow, *_shown(kernel, w)]),
    ]
    result = ["b" if x.dims[0] else None, group("k"), *(label if label in sizes else None for label in out)]
    y = step.draft.add(
        "conv", "convolution", Axes(shown, result, sizes=sizes, splits=dict.fromkeys((*into, *out, *kernel), "whole")),
        dtype=step.dtypes[0], flops=2.0 * math.prod(x.shape) * math.prod(total(dim)[0] for dim in w.dims[1:]),
        saves=(*((0,) if w.grad else ()), *((1,) if x.grad else ())),
        attributes={
            "transposed": True,
            **{key: _each(a[key], space) for key in ("stride", "padding", "dilation", "output_padding")},
        },
    )  # fmt: skip
    return _biased(step, y, a["bias"], 1)


def _shown(labels: Sequence[Hashable], x: Value) -> list[Hashable | None]:
    return [label if dim else None for label, dim in zip(labels, x.dims[2:], strict=True)]


def _each(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    listed = [value] if isinstance(value, int) else list(value)
    return tuple(listed * count if len(listed) == 1 else listed)


def _attention(step: Step) -> Result:
    a = step.args
    q, k, v = a["query"], a["key"], a["value"]
    rank = len(q.dims)
    if not k.dims[-2] or not q.dims[-1] or not v.dims[-1]:
        raise step.unknown("attention to one key, or with heads of one element, is not known")
    outer: list[Hashable] = list(range(rank - 2))
    sizes: dict[Hashable, Size] = {}
    heads: list[Hashable] = list(outer)
    if a.get("enable_gqa") and total(q.dims[rank - 3]) != total(k.dims[rank - 3]):
        few, many = total(k.dims[rank - 3]), total(q.dims[rank - 3])
        sizes = {outer[-1]: few, "group": (many[0] // few[0], many[1] // few[1])}
        heads[-1] = (outer[-1], "group")
    # Values may be narrower or wider than keys.
    deep, last = total(q.dims[-1]), "d" if total(q.dims[-1]) == total(v.dims[-1]) else "e"
    operands = [(q, [*heads, "s", "d"]), (k, [*outer, "t", "d"]), (v, [*outer, "t", last])]
    if a["attn_mask"] is not None:
        mask = a["attn_mask"]
        full: list[Hashable] = [*heads, "s", "t"]
        operands.append((mask, full[-len(mask.dims) :]))
    shown = [(t, [n if dim or isinstance(n, tuple) else None for n, dim in zip(labels, t.dims, strict=True)])
             for t, labels in operands]  # fmt: skip
    result = [n if size != ONE else None for n, size in zip((*heads, "s", last), step.sizes[0], strict=True)]
    scale = float(a["scale"]) if a.get("scale") is not None else 1.0 / math.sqrt(deep[0])
    rows = math.prod(total(dim)[0] for dim in q.dims[:-1])
    flops = 2.0 * rows * total(k.dims[-2])[0] * (deep[0] + total(v.dims[-1])[0])
    dropped: dict[str, Scalar] = {"dropout": float(a["dropout_p"])} if a["dropout_p"] else {}
    lined = Axes(
        shown,
        result,
        sizes=sizes,
        splits={"t": "whole", "d": "whole", "e": "whole"},
        names={"query": "s", "key": "t"},
        single=("d", "e"),
    )
    return step.draft.add(
        "attention", "attention", lined, dtype=step.dtypes[0], flops=flops, saves=(0, 1, 2, -1),
        attributes={"causal": bool(a["is_causal"]), "scale": scale, **dropped},
    )  # fmt: skip


def _embedding(step: Step) -> Result:
    a = step.args
    table, ids = a["weight"], a["indices"]
    where = [k if dim else None for k, dim in enumerate(ids.dims)]
    extra: dict[str, Scalar] = {} if a["padding_idx"] < 0 else {"padding_index": a["padding_idx"]}
    return step.draft.add(
        step.word, "embedding", Axes([(table, ["row", "h"]), (ids, where)], [*where, "h"]), saves=(1,),
        attributes=extra,
    )  # fmt: skip


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), _matmul),
    **dict.fromkeys(("addmm", "baddbmm"), _addmm),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _transposed),
    "einsum": _einsum,
    "embedding": _embedding,
    "linear": _linear,
    "scaled_dot_product_attention": _attention,
}
"""Handlers by the operator's name."""
