"""Aten operators that work element by element, make constants, or reduce."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..operator import Scalar
from .draft import Axes
from .step import Handler, Result, Step, number
from .values import ONE, Value

__all__ = ["HANDLERS", "pointwise"]

# What backward reads of a function of one tensor: 0 its operand, -1 its result.
_UNARY: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "abs": ("abs", (0,)), "bitwise_not": ("not", ()), "cos": ("cos", (0,)), "elu": ("elu", (0,)),
    "erf": ("erf", (0,)), "exp": ("exp", (-1,)), "floor": ("floor", ()), "gelu": ("gelu", (0,)),
    "hardsigmoid": ("hardsigmoid", (0,)), "hardswish": ("hardswish", (0,)), "leaky_relu": ("leaky_relu", (0,)),
    "log": ("log", (0,)), "logical_not": ("not", ()), "reciprocal": ("reciprocal", (-1,)), "relu": ("relu", (-1,)),
    "rsqrt": ("rsqrt", (-1,)), "sigmoid": ("sigmoid", (-1,)), "sign": ("sign", ()), "silu": ("silu", (0,)),
    "sin": ("sin", (0,)), "softplus": ("softplus", (0,)), "sqrt": ("sqrt", (-1,)), "tanh": ("tanh", (-1,)),
    "mish": ("mish", (0,)), "log1p": ("log1p", (0,)), "square": ("square", (0,)),
    "expm1": ("expm1", (-1,)), "atan": ("atan", (0,)),
}  # fmt: skip
_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "pow": "power", "maximum": "maximum", "minimum": "minimum",
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "bitwise_and": "and", "bitwise_or": "or",
    "logical_and": "and", "logical_or": "or",
}  # fmt: skip
_DISCRETE = {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "sign", "floor"}


_NOTHING = {("add", 0), ("sub", 0), ("mul", 1), ("div", 1), ("power", 1)}


def pointwise(
    step: Step, fn: str, tensors: Sequence[Value], saves: Sequence[int] = (), word: str = "", dtype: str = "",
    **attributes: Scalar,
) -> Value:  # fmt: skip
    """A function of each element; operands are broadcast."""
    out = dtype or step.dtypes[0]
    differentiable = fn not in _DISCRETE and out.startswith(("float", "bfloat"))
    return step.draft.add(
        word or step.word, "elementwise", step.draft.aligned(*tensors), dtype=out, saves=saves,
        grad=None if differentiable else False, attributes={"fn": fn, **attributes},
    )  # fmt: skip


def _unary(step: Step) -> Result:
    fn, saves = _UNARY[step.word]
    a, extra = step.args, dict[str, Any]()
    if fn == "gelu":
        extra["approximate"] = a["approximate"]
    if fn == "leaky_relu":
        extra["slope"] = float(a["negative_slope"])
    if fn == "elu":
        extra |= {key: float(a[name]) for key, name in (("alpha", "alpha"), ("outer", "scale")) if a[name] != 1}
        if a["input_scale"] != 1:
            raise step.unknown("a scaled input is not known")
    if fn == "softplus" and (a["beta"], a["threshold"]) != (1, 20):
        raise step.unknown("only beta = 1, threshold = 20 is known")
    return pointwise(step, fn, [step.x], saves, **extra)


def _binary(step: Step) -> Result:
    fn, x, y = _BINARY[step.word], step.args["self"], step.args["other" if "other" in step.args else "exponent"]
    if step.args.get("rounding_mode"):
        raise step.unknown("rounding is not known")
    alpha = step.args.get("alpha", 1)
    if not isinstance(x, Value):
        if fn != "power" or x <= 0:
            raise step.unknown("a number on the left is not known")
        return pointwise(step, "exp", [pointwise(step, "scale", [y], word="scale", factor=math.log(x))], (-1,))
    if not isinstance(y, Value):
        return _by_number(step, fn, x, y * alpha)
    if alpha != 1:
        y = pointwise(step, "scale", [y], word="scale", dtype=y.dtype, factor=float(alpha))
    return pointwise(step, fn, [x, y], _read_back(fn, x, y))


def _read_back(fn: str, x: Value, y: Value) -> tuple[int, ...]:
    if fn == "mul":
        return (*((0,) if y.grad else ()), *((1,) if x.grad else ()))
    if fn == "div":
        return (0, 1) if y.grad else (1,)
    if fn in ("maximum", "minimum"):
        return (0, 1)
    return (0, 1, -1) if fn == "power" else ()


def _by_number(step: Step, fn: str, x: Value, y: float) -> Value:
    if (fn, y) in _NOTHING and x.dtype == step.dtypes[0] and not step.draft.inference:
        return x
    if fn == "mul":
        return pointwise(step, "scale", [x], factor=number(y))
    if fn == "div":
        return pointwise(step, "scale", [x], factor=number(1.0 / y if y else math.inf))
    if fn in ("add", "sub"):
        return pointwise(step, "scale", [x], term=number(y if fn == "add" else -y))
    if fn == "power":
        return pointwise(step, fn, [x], (0,), exponent=number(y))
    return pointwise(step, fn, [x], value=number(y))


def _neg(step: Step) -> Result:
    return pointwise(step, "scale", [step.x], factor=-1.0)


def _rsub(step: Step) -> Result:
    x, other = step.x, step.args["other"]
    if isinstance(other, Value):
        return pointwise(step, "sub", [other, x])
    return pointwise(step, "scale", [x], factor=-1.0, term=number(other))


def _where(step: Step) -> Result:
    condition: Value = step.args["condition"]
    x: Any = step.args["self"]
    y: Any = step.args["other"]
    if isinstance(x, Value) and isinstance(y, Value):
        return pointwise(step, "where", [condition, x, y], (0,))
    if isinstance(y, Value):
        fill: Any = x
        return pointwise(step, "masked_fill", [y, condition], (1,), value=number(fill))
    if isinstance(x, Value):
        other = pointwise(step, "not", [condition], word="not", dtype="bool")
        return pointwise(step, "masked_fill", [x, other], (1,), value=number(y))
    chosen = pointwise(step, "cast", [condition], word="cast")
    return pointwise(step, "scale", [chosen], factor=number(x - y), term=number(y))


def _masked_fill(step: Step) -> Result:
    a = step.args
    if isinstance(a["value"], Value):
        return pointwise(step, "where", [a["mask"], a["value"], a["self"]], (0,))
    return pointwise(step, "masked_fill", [a["self"], a["mask"]], (1,), value=number(a["value"]))


def _clamp(step: Step) -> Result:
    a = step.args
    if step.word == "relu6":
        low, high = 0.0, 6.0
    else:
        low, high = (a.get("min", a.get("min_val")), a.get("max", a.get("max_val")))
    ends: dict[str, Any] = {key: number(end) for key, end in (("low", low), ("high", high)) if end is not None}
    return pointwise(step, "clamp", [step.x], (0,), **ends)


def _alias(step: Step) -> Result:
    if step.x.dtype != step.dtypes[0]:
        return pointwise(step, "cast", [step.x], word="cast")
    return step.x


def _detach(step: Step) -> Result:
    if not step.x.grad:
        return step.x
    return step.draft.add(step.word, "elementwise", step.draft.aligned(step.x), grad=False, attributes={"fn": "detach"})


def _constant(step: Step) -> Result:
    fills = {"zeros": 0, "ones": 1, "zeros_like": 0, "ones_like": 1, "new_zeros": 0, "new_ones": 1}
    a, extra = step.args, dict[str, Any]()
    if step.word == "arange" and step.sizes[0][0] != ONE:
        fn, extra = "arange", {"start": number(a.get("start", 0)), "step": number(a.get("step", 1))}
    elif step.word == "arange":  # of one number: a dimension of one element is no loop
        fn, extra = "full", {"value": number(a.get("start", 0))}
    else:
        value: Any = fills.get(step.word, a.get("fill_value", a.get("s")))
        fn, extra = "full", {"value": number(value)}
    axes = {k: size for k, size in enumerate(step.sizes[0]) if size != ONE}
    return step.draft.add(
        step.word, "elementwise", Axes([], [k if k in axes else None for k in range(len(step.sizes[0]))], sizes=axes),
        dtype=step.dtypes[0], grad=False, attributes={"fn": fn, **extra},
    )  # fmt: skip


def _triangle(step: Step) -> Result:
    x, rank = step.x, len(step.x.dims)
    if rank < 2 or not x.dims[-1] or not x.dims[-2]:
        raise step.unknown("only matrices are known")
    lined = Axes(
        [(x, range(rank))],
        range(rank),
        splits={rank - 1: "whole", rank - 2: "whole"},
        names={"row": rank - 2, "column": rank - 1},
    )
    return step.draft.add(
        step.word, "elementwise", lined, attributes={"fn": step.word, "diagonal": step.args["diagonal"]},
    )  # fmt: skip


def _cumsum(step: Step) -> Result:
    x, rank = step.x, len(step.x.dims)
    dim = step.args["dim"] % rank
    if not x.dims[dim]:  # sums of one element
        return x if x.dtype == step.dtypes[0] else pointwise(step, "cast", [x], word="cast")
    return step.draft.add(
        step.word, "elementwise", Axes([(x, range(rank))], range(rank), splits={dim: "whole"}, names={"loop": dim}),
        dtype=step.dtypes[0], attributes={"fn": "cumsum"},
    )  # fmt: skip


def _one_hot(step: Step) -> Result:
    rank = len(step.x.dims)
    if step.sizes[0][-1] == ONE:
        raise step.unknown("one class is not known")
    lined = Axes([(step.x, range(rank))], range(rank + 1), sizes={rank: step.sizes[0][-1]}, names={"loop": rank})
    return step.draft.add(
        step.word, "elementwise", lined, dtype=step.dtypes[0], grad=False, attributes={"fn": "one_hot"},
    )  # fmt: skip


def _reduce(step: Step) -> Result:
    fns = {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "argmax": "argmax", "max": "max", "min": "min"}
    x, a, rank = step.x, step.args, len(step.x.dims)
    dims = a.get("dim")
    listed = [dims] if isinstance(dims, int) else list(dims or range(rank))
    over = sorted(d % rank for d in listed)
    fn = fns[step.word]
    kept = [None if k in over else k for k in range(rank)]
    result = kept if a.get("keepdim") else [k for k in range(rank) if k not in over]
    outs: list[Value] = []
    for i, name in enumerate([fn, "argmax"] if len(step.sizes) > 1 else [fn]):
        whole = name == "argmax"
        outs.append(
            step.draft.add(
                step.word,
                "reduction",
                Axes([(x, range(rank))], result, splits=dict.fromkeys(over, "whole") if whole else {}),
                dtype=step.dtypes[i],
                grad=False if whole else None,
                saves=(0, -1) if fn in ("max", "min") else (),
                attributes={"fn": name},
            )
        )
    return outs if len(step.sizes) > 1 else outs[0]


def _variance(step: Step) -> Result:
    """Variance and standard deviation, as means of squares of what is centred."""
    x, a, rank = step.x, step.args, len(step.x.dims)
    dims = a.get("dim")
    over = sorted(d % rank for d in ([dims] if isinstance(dims, int) else dims or range(rank)))
    kept: list[int | None] = [None if k in over else k for k in range(rank)]
    bare = [k for k in range(rank) if k not in over]
    count = math.prod(x.shape[k] for k in over)
    correction = a.get("correction", 1 if a.get("unbiased", True) else 0)
    spare = count - (1 if correction is None else correction)
    if any(size != ONE and size[0] != size[1] for k in over for size in x.dims[k]) or spare <= 0:
        raise step.unknown("over the batch, or of too few values, is not known")
    axes = range(rank)
    mean = step.draft.add("mean", "reduction", Axes([(x, axes)], kept), attributes={"fn": "mean"})
    square = pointwise(step, "square", [pointwise(step, "sub", [x, mean], word="sub")], (0,), word="square")
    result = kept if a.get("keepdim") else bare
    total = step.draft.add("sum", "reduction", Axes([(square, axes)], result), attributes={"fn": "sum"})
    variance = pointwise(step, "scale", [total], factor=1.0 / spare)
    return variance if step.word == "var" else pointwise(step, "sqrt", [variance], (-1,))


def _vector_norm(step: Step) -> Result:
    x, a, rank = step.x, step.args, len(step.x.dims)
    if a.get("ord", 2) != 2:
        raise step.unknown("only the 2-norm is known")
    over = sorted(d % rank for d in (a.get("dim") or range(rank)))
    result = [None if k in over else k for k in range(rank) if a.get("keepdim") or k not in over]
    square = pointwise(step, "square", [x], (0,), word="square")
    total = step.draft.add("sum", "reduction", Axes([(square, range(rank))], result), attributes={"fn": "sum"})
    return pointwise(step, "sqrt", [total], (-1,))


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(("clamp", "hardtanh", "relu6", "clamp_min", "clamp_max"), _clamp),
    **dict.fromkeys(
        ("to", "_to_copy", "clone", "contiguous", "alias", "lift_fresh_copy", "type_as", "float", "view_as_real_copy"),
        _alias,
    ),
    **dict.fromkeys(("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones",
                     "new_full", "arange", "scalar_tensor"), _constant),
    **dict.fromkeys(("triu", "tril"), _triangle),
    **dict.fromkeys(("sum", "mean", "amax", "amin", "argmax"), _reduce),
    "cumsum": _cumsum,
    "detach": _detach,
    "masked_fill": _masked_fill,
    "max.dim": _reduce,
    "min.dim": _reduce,
    "neg": _neg,
    "one_hot": _one_hot,
    "rsub": _rsub,
    "where": _where,
    **dict.fromkeys(("var", "std"), _variance),
    "isnan": lambda step: pointwise(step, "ne", [step.x, step.x]),
    "linalg_vector_norm": _vector_norm,
}  # fmt: skip
"""Handlers by the operator's name, with its overload where that matters."""
