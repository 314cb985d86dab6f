"""Functions of single elements, by the names that training graphs give them (docs/training-graphs.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["FUNCTIONS", "pointwise"]

Attributes = Mapping[str, Any]
Function = Callable[[Sequence[Tensor], Attributes], Tensor]


def pointwise(fn: str, operands: Sequence[Tensor], attributes: Attributes) -> Tensor:
    """A function of operands that broadcast against each other; nothing in it depends on an element's position.

    Parameters
    ----------
    fn : str
        A key of `FUNCTIONS`.
    operands : sequence of Tensor
        The operands that the function reads.
    attributes : mapping
        Of the operator: ``factor``, ``value``, … Infinities and NaN may be text.

    Raises
    ------
    KeyError
        If there is no such function here.
    """
    return FUNCTIONS[fn](operands, attributes)


def _one(function: Callable[[Tensor], Tensor]) -> Function:
    return lambda xs, a: function(xs[0])


def _two(function: Callable[[Any, Any], Tensor]) -> Function:
    """Of two tensors, or of one and the attribute ``value``."""
    return lambda xs, a: function(xs[0], xs[1] if len(xs) > 1 else _number(a["value"]))


def _many(function: Callable[[Tensor, Tensor], Tensor]) -> Function:
    def fold(xs: Sequence[Tensor], a: Attributes) -> Tensor:
        total = xs[0]
        for x in xs[1:]:
            total = function(total, x)
        return total

    return fold


def _number(value: Any) -> float | int:
    return float(value) if isinstance(value, str) else value


def _scale(xs: Sequence[Tensor], a: Attributes) -> Tensor:
    x, factor, term = xs[0], _number(a.get("factor", 1)), _number(a.get("term", 0))
    y = x if factor == 1 else x * factor
    return y if term == 0 else y + term


def _power(xs: Sequence[Tensor], a: Attributes) -> Tensor:
    return torch.pow(xs[0], xs[1] if len(xs) > 1 else _number(a["exponent"]))


def _clamp(xs: Sequence[Tensor], a: Attributes) -> Tensor:
    low, high = (_number(a[key]) if key in a else None for key in ("low", "high"))
    return xs[0].clamp(low, high)


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "scale": _scale,
        "power": _power,
        "clamp": _clamp,
        "gelu": lambda xs, a: functional.gelu(xs[0], approximate=a.get("approximate", "none")),
        "leaky_relu": lambda xs, a: functional.leaky_relu(xs[0], a["slope"]),
        "elu": lambda xs, a: a.get("outer", 1.0) * functional.elu(xs[0], a.get("alpha", 1.0)),
        "nonzero": lambda xs, a: (xs[0] != 0).to(xs[0].dtype),
        "masked_fill": lambda xs, a: torch.where(xs[1], _number(a["value"]), xs[0]),
        "where": lambda xs, a: torch.where(xs[0], xs[1], xs[2]),
        "cast": _one(lambda x: x),  # to the operator's dtype, as every result is
        "copy": _one(lambda x: x),
        "detach": _one(lambda x: x.detach()),
        "not": _one(torch.logical_not),
        "silu": _one(functional.silu),
        "mish": _one(functional.mish),
        "softplus": _one(functional.softplus),
        "hardswish": _one(functional.hardswish),
        "hardsigmoid": _one(functional.hardsigmoid),
        **{name: _one(getattr(torch, name)) for name in (
            "abs", "atan", "cos", "erf", "exp", "expm1", "floor", "log", "log1p", "reciprocal", "relu", "rsqrt",
            "sigmoid", "sign", "sin", "sqrt", "square", "tanh")},
        "add": _many(torch.add),
        "mul": _many(torch.mul),
        "sub": _two(torch.sub),
        "div": _two(torch.div),
        "maximum": _two(torch.maximum),
        "minimum": _two(torch.minimum),
        "and": _two(torch.logical_and),
        "or": _two(torch.logical_or),
        **{name: _two(getattr(torch, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    }
)  # fmt: skip
"""Function -> what computes it of the operands and the operator's attributes."""
