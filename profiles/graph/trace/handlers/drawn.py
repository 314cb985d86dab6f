"""Aten operators that draw at random: dropout of elements and of channels, noise, and what drop path is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..draft import Axes
from ..elementwise import pointwise
from ..step import Handler, Result, Step, number
from ..values import ONE, Size, Value, total

__all__ = ["HANDLERS"]

_ALPHA = 1.7580993408473766
"""Scale times alpha of SELU, as `torch.nn.functional.alpha_dropout` has it."""


def _drawn(step: Step, fn: str, sizes: Sequence[Size], **attributes: Any) -> Value:
    """A tensor that nothing is read for: a draw for each element."""
    labels = [k if size != ONE else None for k, size in enumerate(sizes)]
    made = {k: size for k, size in enumerate(sizes) if size != ONE}
    dtype = step.dtypes[0] if step.dtypes[0].startswith(("float", "bfloat")) else "float32"
    return step.draft.add(
        fn, "elementwise", Axes([], labels, sizes=made), dtype=dtype, grad=False, attributes={"fn": fn, **attributes},
    )  # fmt: skip


def _dropout(step: Step) -> Result:
    a = step.args
    p, on = float(a["p"]), a.get("train", a.get("training"))
    on = True if on is None else on
    y = pointwise(step, "dropout", [step.x], (-1,), p=p) if on and p else step.x
    return [y] if len(step.sizes) > 1 else y  # with the mask beside it, which only torch's own backward reads


def _of_features(step: Step) -> Result:
    """Dropout of whole channels, or as SELU wants it: a factor of 0 or 1 for each of them."""
    a, x = step.args, step.x
    p = float(a["p"])
    if not a["train"] or not p:
        return x
    if p == 1:
        return pointwise(step, "scale", [x], word="scale", factor=0.0)
    shape = [total(dim) for dim in x.dims]
    one = [size if k < 2 or "feature" not in step.word else ONE for k, size in enumerate(shape)]
    mask = _drawn(step, "bernoulli", one, p=1.0 - p)
    if "alpha" not in step.word:
        scaled = pointwise(step, "scale", [mask], word="scale", factor=1.0 / (1.0 - p))
        return pointwise(step, "mul", [x, scaled], (1,), word="mul")
    factor = 1.0 / math.sqrt((_ALPHA**2 * p + 1.0) * (1.0 - p))
    shift = _ALPHA * factor
    low = pointwise(step, "scale", [mask], word="scale", factor=shift, term=shift * p - shift)
    scaled = pointwise(step, "scale", [mask], word="scale", factor=factor)
    return pointwise(step, "add", [pointwise(step, "mul", [x, scaled], (1,), word="mul"), low], word="add")


def _bernoulli(step: Step) -> Result:
    p = step.args.get("p")
    if isinstance(p, Value) or p is None:  # of a tensor of chances
        chance = p if isinstance(p, Value) else step.x
        draw = _drawn(step, "uniform", step.sizes[0])
        below = pointwise(step, "lt", [draw, chance], word="lt", dtype="bool")
        return pointwise(step, "cast", [below], word="cast")
    return _drawn(step, "bernoulli", step.sizes[0], p=float(p))


def _uniform(step: Step) -> Result:
    low, high = float(step.args.get("from", 0.0)), float(step.args.get("to", 1.0))
    return _moved(step, _drawn(step, "uniform", step.sizes[0]), high - low, low)


def _normal(step: Step) -> Result:
    mean, deviation = step.args.get("mean", 0.0), step.args.get("std", 1.0)
    if isinstance(mean, Value) or isinstance(deviation, Value):
        raise step.unknown("normal numbers are known around one number; add and multiply them instead")
    return _moved(step, _drawn(step, "normal", step.sizes[0]), float(deviation), float(mean))


def _integer(step: Step) -> Result:
    low, high = step.args.get("low", 0), step.args["high"]
    draw = _drawn(step, "uniform", step.sizes[0])
    scaled = pointwise(
        step, "scale", [draw], word="scale", dtype=draw.dtype, factor=float(high - low), term=number(low)
    )
    return pointwise(step, "floor", [scaled], word="floor")


def _exponential(step: Step) -> Result:
    """−log(1 − u) / rate of a uniform u."""
    rate = float(step.args.get("lambd", 1.0))
    draw = _drawn(step, "uniform", step.sizes[0])
    left = pointwise(step, "scale", [draw], word="scale", dtype=draw.dtype, factor=-1.0, term=1.0)
    return _moved(step, pointwise(step, "log", [left], word="log", dtype=draw.dtype), -1.0 / rate, 0.0)


def _moved(step: Step, x: Value, factor: float, term: float) -> Value:
    if (factor, term) == (1.0, 0.0):
        return x
    return pointwise(step, "scale", [x], word="scale", factor=factor, term=number(term))


def _empty(step: Step) -> Result:
    """Memory that is written before it is read; zeros until then."""
    labels = [k if size != ONE else None for k, size in enumerate(step.sizes[0])]
    made = {k: size for k, size in enumerate(step.sizes[0]) if size != ONE}
    return step.draft.add(
        step.word, "elementwise", Axes([], labels, sizes=made), dtype=step.dtypes[0], grad=False,
        attributes={"fn": "full", "value": 0},
    )  # fmt: skip


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("dropout", "native_dropout"), _dropout),
    **dict.fromkeys(("feature_dropout", "alpha_dropout", "feature_alpha_dropout"), _of_features),
    **dict.fromkeys(("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"), _empty),
    **dict.fromkeys(("rand", "rand_like", "uniform"), _uniform),
    **dict.fromkeys(("randn", "randn_like", "normal", "normal_functional"), _normal),
    **dict.fromkeys(("randint", "randint_like"), _integer),
    "bernoulli": _bernoulli,
    "exponential": _exponential,
}  # fmt: skip
"""Handlers by the operator's name."""
