"""`LocalOperator`: an operator as one device computes it, under no name: what is measured once and found again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from .....reprs import Shown
from ...operator import Operator

__all__ = ["LocalOperator"]


@dataclass(frozen=True, slots=True, repr=False)
class LocalOperator(Shown):
    """One device's part of an operator.

    Parameters
    ----------
    op : Operator
        Its loops have the trip counts of one device; it has no name, and its inputs are numbers.
    cut : tuple of str
        Of the loops that are cut, those by which the computation itself changes: sums for statistics over devices,
        and rows of a table of which others hold the rest.
    """

    op: Operator
    cut: tuple[str, ...] = ()

    @classmethod
    def of(cls, op: Operator, parts: Mapping[str, int], dtype: str | None = None) -> LocalOperator | None:
        """What one device computes where loops are cut into so many parts; None where one does not come out even.

        Parameters
        ----------
        op : Operator
            The whole operator.
        parts : mapping
            Loop -> number of pieces; loops that are not named are whole.
        dtype : str, optional
            Type that floating-point operators are computed in; by default each in its own.
        """
        if any(x.size % parts.get(x.name, 1) for x in op.loops):
            return None
        rows = op.parsed.operands[0][0] if op.kind == "embedding" else ()
        cut = tuple(
            x.name for x in op.loops if parts.get(x.name, 1) > 1 and (x.split == "statistic" or x.name in rows[:1])
        )
        computed = dtype if dtype is not None and op.dtype.startswith(("float", "bfloat")) else op.dtype
        small = replace(
            op, name="local", inputs=tuple(map(str, range(len(op.inputs)))), layer=-1, nodes=(), dtype=computed,
            loops=tuple(replace(x, size=x.size // parts.get(x.name, 1)) for x in op.loops),
            flops=op.flops / math.prod(parts.get(x.name, 1) for x in op.loops),
            attributes=MappingProxyType(dict(op.attributes)),
        )  # fmt: skip
        return cls(small, cut)

    @property
    def key(self) -> str:
        """Equal for equal work."""
        op = self.op
        loops = [[x.name, x.size, x.batch, x.split] for x in op.loops]
        said = [op.kind, op.formula, loops, op.dtype, list(op.saves), sorted(op.attributes.items()), list(self.cut)]
        return json.dumps(said, separators=(",", ":"))
