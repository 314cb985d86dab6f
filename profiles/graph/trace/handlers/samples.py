"""Numbers that a module works out of the batch size (`loss.sum() / x.shape[0]`), as tensors that count the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..draft import Axes
from ..elementwise import pointwise
from ..step import Step, number
from ..values import Size, Value

__all__ = ["with_counts"]

_TAKES = frozenset({"add", "sub", "mul", "div", "rsub", "true_divide"})
"""Calls whose second operand may be a number or a tensor."""


def with_counts(step: Step, twin: Mapping[str, Any], growth: Size) -> Step:
    """The call with a sum over the samples in the place of a number that grows, or shrinks, as the batch does.

    Parameters
    ----------
    step : Step
        The call at the first batch.
    twin : mapping
        Its arguments at the second batch.
    growth : (int, int)
        Both batches.
    """
    if step.draft.inference or step.word.rstrip("_") not in _TAKES:
        return step
    a, b = _number(step.args.get("other")), _number(twin.get("other"))
    if a is None or b is None or a == b:
        return step
    if math.isclose(a * growth[1], b * growth[0], rel_tol=1e-12):
        return replace(step, args={**step.args, "other": _count(step, a / growth[0], growth)})
    if math.isclose(a * growth[0], b * growth[1], rel_tol=1e-12):
        share = pointwise(step, "reciprocal", [_count(step, 1.0, growth)], word="reciprocal")
        other = pointwise(step, "scale", [share], word="scale", factor=number(a * growth[0]))
        return replace(step, args={**step.args, "other": other})
    return step


def _number(x: Any) -> float | None:
    return x if isinstance(x, (int, float)) and not isinstance(x, bool) else None


def _count(step: Step, each: float, growth: Size) -> Value:
    """The sum of a number over the samples."""
    dtype = step.dtypes[0] if step.dtypes[0].startswith(("float", "bfloat")) else "float32"
    ones = step.draft.add(
        "samples", "elementwise", Axes([], [0], sizes={0: growth}), dtype=dtype, grad=False,
        attributes={"fn": "full", "value": each},
    )  # fmt: skip
    return step.draft.add("count", "reduction", Axes([(ones, [0])], []), grad=False, attributes={"fn": "sum"})
