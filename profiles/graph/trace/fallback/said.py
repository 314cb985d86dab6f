"""`said`: the arguments of one call at both batches, as places, plain numbers and text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...operator import DTYPE_BYTES
from ..step import Step, number
from ..values import Size, Value

__all__ = ["Said", "said"]

_DROPPED = frozenset({"Device", "Layout", "MemoryFormat", "Generator"})
"""Types of arguments that say where and how elements lie; a call on one device's rows says that itself."""


@dataclass(frozen=True, slots=True)
class Said:
    """A call's arguments.

    Parameters
    ----------
    operands : tuple of Value
        Tensors, in the order of their places.
    arguments : mapping
        By name; `profiles.graph.aten` says how. Sizes that grow with the batch are ``{"rows": size}`` here: of one row.
    grown : tuple of int
        Those sizes.
    """

    operands: tuple[Value, ...]
    arguments: Mapping[str, Any]
    grown: tuple[int, ...]

    def in_rows(self, unit: int) -> dict[str, Any]:
        """The arguments, sizes that grow as multiples of `unit`."""
        return {key: _in_rows(value, unit) for key, value in self.arguments.items()}


def said(step: Step, target: Any, twin: Mapping[str, Any], growth: Size) -> Said:
    """Write the arguments of a call down.

    Parameters
    ----------
    step : Step
        The call at the first batch.
    target : overload
        What is called.
    twin : mapping
        Its arguments at the second batch; tensors are anything there.
    growth : (int, int)
        Both batches.

    Raises
    ------
    InputError
        If an argument is none that JSON can say, or a number neither stays nor grows as the batch does.
    """
    operands, grown = list[Value](), list[int]()
    found: dict[str, Any] = {}

    def one(value: Any, other: Any) -> Any:
        if isinstance(value, Value):
            operands.append(value)
            return {"complex" if value.pairs else "operand": len(operands) - 1}
        if isinstance(value, (list, tuple)):
            return [one(x, y) for x, y in zip(value, other, strict=True)]
        if value is None or isinstance(value, (str, bool)):
            return value
        if isinstance(value, int) and value != other:
            if value * growth[1] != other * growth[0] or value < 1:
                raise step.unknown("has a number that depends on the batch")
            grown.append(value)
            return {"rows": value}
        if isinstance(value, (int, float)):
            if value != other and not (math.isnan(value) and math.isnan(other)):
                raise step.unknown("has a number that depends on the batch")
            plain = number(value)
            return {"number": plain} if isinstance(plain, str) else plain
        if isinstance(value, complex):
            parts = (number(value.real), number(value.imag))
            if value != other or not all(isinstance(x, (int, float)) for x in parts):
                raise step.unknown("has a number that depends on the batch, or is infinite")
            return {"pair": list(parts)}
        name = str(value).removeprefix("torch.")
        if name in DTYPE_BYTES:
            return {"dtype": name}
        raise step.unknown(f"takes {value!r:.60}, which graphs cannot say")

    for a in target._schema.arguments:
        value = step.args.get(a.name)
        kind = str(a.real_type)
        if any(word in kind for word in _DROPPED):
            if "Generator" in kind and value is not None:
                raise step.unknown("takes a generator of random numbers")
            continue
        other = twin.get(a.name)
        default = a.has_default_value() and not _tensors(value) and value == a.default_value and value == other
        if not default and a.name in step.args:
            found[a.name] = one(value, other)
    return Said(tuple(operands), found, tuple(grown))


def _tensors(value: Any) -> bool:
    return isinstance(value, Value) or (isinstance(value, (list, tuple)) and any(map(_tensors, value)))


def _in_rows(value: Any, unit: int) -> Any:
    if isinstance(value, list):
        return [_in_rows(x, unit) for x in value]
    if isinstance(value, dict) and "rows" in value:
        return {"rows": value["rows"] // unit}
    return value
