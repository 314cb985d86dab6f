"""`Formula`: which loops run over which dimensions of an operator's tensors, written as einops and einsum write it.

``"b s h, h (n d) -> b s n d"``: two operands of three and two dimensions. A dimension in brackets is several loops,
major first: only the major one can be cut over devices without mixing what belongs together. A loop that is in an
operand and not in the result is reduced. ``()`` is a dimension of size 1, ``.`` a tensor without dimensions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ...errors import InputError
from ...reprs import Shown

__all__ = ["Dims", "Formula", "parse"]

Dims = tuple[tuple[str, ...], ...]
"""Dimensions of a tensor, each the loops that run over it, major first."""

_TOKEN = re.compile(r"\(([^()]*)\)|([A-Za-z_][A-Za-z0-9_]*)|(\S)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True, slots=True, repr=False)
class Formula(Shown):
    """Dimensions of the operands and of the result.

    Parameters
    ----------
    operands : tuple of Dims
        In the order of the operator's inputs.
    result : Dims
        Loops of the result's dimensions.
    """

    operands: tuple[Dims, ...]
    result: Dims

    @property
    def loops(self) -> tuple[str, ...]:
        """All loops: those of the result first, then those that are reduced, in order of appearance."""
        return tuple(dict.fromkeys(x for dims in (self.result, *self.operands) for group in dims for x in group))

    @property
    def reduced(self) -> tuple[str, ...]:
        """Loops that the result does not have."""
        kept = {x for group in self.result for x in group}
        return tuple(x for x in self.loops if x not in kept)

    def __str__(self) -> str:
        left = ", ".join(_text(dims) or "." for dims in self.operands)
        return f"{left} -> {_text(self.result)}".strip()


@lru_cache(maxsize=4096)
def parse(text: str) -> Formula:
    """Read a formula.

    Raises
    ------
    InputError
        If it is not of the form ``"a b, b (c d) -> a c d"``, or a tensor names a loop twice.
    """
    left, arrow, right = text.partition("->")
    if not arrow or "->" in right:
        raise InputError(f"formula: expected one '->' (got {text!r})")
    operands = tuple(_dims(part, text) for part in left.split(",")) if left.strip() else ()
    return Formula(operands, _dims(right, text))


def _dims(part: str, text: str) -> Dims:
    if part.strip() == ".":
        return ()
    dims: list[tuple[str, ...]] = []
    for match in _TOKEN.finditer(part):
        group, name, other = match.groups()
        if other is not None:
            raise InputError(f"formula {text!r}: unexpected {other!r}; names and (groups of names) only")
        loops = tuple(group.split()) if name is None else (name,)
        bad = next((x for x in loops if not _NAME.match(x)), None)
        if bad is not None:
            raise InputError(f"formula {text!r}: {bad!r} is no name of a loop")
        dims.append(loops)
    names = [x for loops in dims for x in loops]
    twice = next((x for x in names if names.count(x) > 1), None)
    if twice is not None:
        raise InputError(f"formula {text!r}: loop {twice!r} is named twice in one tensor")
    return tuple(dims)


def _text(dims: Dims) -> str:
    return " ".join(loops[0] if len(loops) == 1 else f"({' '.join(loops)})" for loops in dims)
