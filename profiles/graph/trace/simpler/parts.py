"""Fused linear layers, whose result is taken apart at once (queries, keys and values; gate and up), as several."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ...fused.part import FusedPart
from ...notation import Dims, Formula
from ...operator import Operator, Tensor

__all__ = ["parted"]

BY_PLACE = frozenset({"arange", "rope"})
"""Functions of an element's place in a dimension that no attribute names."""

Span = tuple[int, int]
"""Of the fused dimension: where a part begins and ends."""


def parted(
    operators: Sequence[Operator], tensors: Mapping[str, Tensor], parameters: Collection[str], results: Collection[str]
) -> tuple[list[Operator], dict[str, Tensor]]:
    """The same computation with every fused product as one for each part; the tensors with their parts.

    A dimension of ``3 · heads · size`` cannot be cut by heads: what one device had would be no range of it. Its parts
    can, each by its own heads. What lies between the product and the slices (a bias, a sum with an adapter, views) is
    taken apart with it, as far as every reader takes the same parts; else all stays as it is.

    Parameters
    ----------
    operators : sequence of Operator
        In topological order.
    tensors : mapping
        Inputs and parameters.
    parameters : collection of str
        Those of them that a module has as parameters: what else there is (inputs, buffers) is not taken apart.
    results : collection of str
        Operators whose values are asked for.
    """
    made, known = list(operators), dict(tensors)
    for op in operators:
        if op.kind == "contraction" and any(name in parameters for name in op.inputs):
            there = {x.name: x for x in made}
            if op.name not in there:
                continue
            found = _Fused(there, known, parameters, results)
            if found.follow(op):
                made, known = found.apart()
    return made, known


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where the fused dimension lies in a value: a dimension of it, and how many fused elements each index has."""

    dim: int
    unit: int


@dataclass(eq=False)
class _Fused:
    """A product that may be fused, and all that has to be taken apart with it."""

    made: Mapping[str, Operator]
    tensors: Mapping[str, Tensor]
    parameters: Collection[str]
    results: Collection[str]
    values: dict[str, _Axis] = field(default_factory=dict[str, _Axis])
    """Values and parameters that are taken apart."""
    loops: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """Operator that is taken apart -> its loop along the fused dimension, and fused elements of each index."""
    ends: dict[str, Span] = field(default_factory=dict[str, Span])
    """Slices that take a part -> which."""
    size: int = 0

    def follow(self, op: Operator) -> bool:
        """Whether the product's result is read in parts alone, which lie one after another without gaps."""
        self.readers: dict[str, list[tuple[Operator, int]]] = {}
        for reader in self.made.values():
            for k, name in enumerate(reader.inputs):
                self.readers.setdefault(name, []).append((reader, k))
        dims = op.parsed.result
        weights = {
            x for k, name in enumerate(op.inputs) if name in self.parameters for x in _flat(op.parsed.operands[k])
        }
        for dim in range(len(dims) - 1, -1, -1):  # a linear layer's result has it last
            loop = dims[dim][0] if len(dims[dim]) == 1 else ""
            if loop in weights and op.loop(loop).split == "free" and not op.loop(loop).batch:
                self.values, self.loops, self.ends, self.size = {}, {}, {}, op.sizes[loop]
                if self._join(op, loop, 1) and len(self._spans()) > 1:
                    return True
        return False

    def _spans(self) -> list[Span]:
        """The parts; empty if they overlap, leave gaps, or cut an index."""
        spans = sorted(set(self.ends.values()))
        joined = all(a[1] == b[0] for a, b in pairwise(spans))
        whole = bool(spans) and spans[0][0] == 0 and spans[-1][1] == self.size
        units = {axis.unit for axis in self.values.values()}
        return spans if joined and whole and all(a % u == 0 for a, _ in spans for u in units) else []

    def _join(self, op: Operator, loop: str, unit: int) -> bool:
        """Take an operator apart along a loop, with all that has it."""
        if op.name in self.loops:
            return self.loops[op.name] == (loop, unit)
        formula, one = op.parsed, op.loop(loop)
        from ...compute.draws import draws_at_random  # its room needs torch

        plain = op.kind == "contraction" or (op.kind == "elementwise" and not draws_at_random(op))
        if not (plain or _rearranges(op)) or op.attributes.get("fn") in BY_PLACE:
            return False
        if one.split != "free" or one.batch or loop in op.attributes.values() or op.name in self.results:
            return False
        self.loops[op.name] = loop, unit
        if loop not in _flat(formula.result):
            return False
        for k, dims in enumerate(formula.operands):
            if loop in _flat(dims) and not self._value(op.inputs[k], self._axis(op, dims, loop, unit)):
                return False
        return self._value(op.name, self._axis(op, formula.result, loop, unit))

    def _axis(self, op: Operator, dims: Dims, loop: str, unit: int) -> _Axis | None:
        """Where a loop lies in a tensor; None where it is not the major one of its dimension."""
        dim = next(d for d, group in enumerate(dims) if loop in group)
        inner = math.prod(op.sizes[x] for x in dims[dim][1:])
        return _Axis(dim, unit // inner) if dims[dim][0] == loop and unit % inner == 0 else None

    def _value(self, name: str, axis: _Axis | None) -> bool:
        """Take a value apart, with what makes it and all that read it."""
        if axis is None or name in self.values:
            return axis is not None and self.values[name] == axis
        self.values[name] = axis
        if name in self.made:
            op = self.made[name]
            group = op.parsed.result[axis.dim]
            if not group or not self._join(op, group[0], axis.unit * math.prod(op.sizes[x] for x in group[1:])):
                return False
        elif name not in self.parameters or self.tensors[name].part is not None:
            return False
        readers = self.readers.get(name, [])
        return bool(readers) and all(self._read(op, k, axis) for op, k in readers)

    def _read(self, op: Operator, k: int, axis: _Axis) -> bool:
        """Whether a reader takes a part, or can be taken apart as well."""
        a = op.attributes
        group = op.parsed.operands[k][axis.dim]
        if op.kind == "view" and a.get("fn") in ("slice", "select") and a["dim"] == axis.dim:
            first = int(a["index" if a["fn"] == "select" else "start"])  # pyright: ignore[reportArgumentType]
            count = 1 if a["fn"] == "select" else op.shape[axis.dim]
            self.ends[op.name] = first * axis.unit, (first + count) * axis.unit
            return a.get("step", 1) == 1 and op.name not in self.results
        return bool(group) and self._join(op, group[0], axis.unit * math.prod(op.sizes[x] for x in group[1:]))

    def apart(self) -> tuple[list[Operator], dict[str, Tensor]]:
        """Operators and tensors with the fused ones in parts."""
        spans, out = self._spans(), list[Operator]()
        renamed: dict[str, str] = {}
        for op in self.made.values():
            inputs = tuple(renamed.get(name, name) for name in op.inputs)
            if op.name in self.loops:
                out += [self._part(op, inputs, span) for span in spans]
            elif op.name in self.ends:
                span, source = self.ends[op.name], op.inputs[0]
                part = _named(source, span)
                if op.attributes["fn"] == "select":  # the dimension is of size 1: it goes
                    out.append(self._unsqueezed(op, part))
                else:
                    renamed[op.name] = part
            else:
                out.append(replace(op, inputs=inputs))
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.tensors.items():
            axis = self.values.get(name)
            if axis is None:
                tensors[name] = tensor
                continue
            for a, b in spans:
                shape = list(tensor.shape)
                shape[axis.dim] = (b - a) // axis.unit
                part = FusedPart(name, tensor.shape, axis.dim, a // axis.unit)
                at = part.start, part.start + shape[axis.dim]
                tensors[_named(name, at)] = replace(tensor, name=_named(name, at), shape=tuple(shape), part=part)
        return out, tensors

    def _part(self, op: Operator, inputs: Sequence[str], span: Span) -> Operator:
        """One part of an operator; a loop of which one index is left goes."""
        loop, unit = self.loops[op.name]
        count = (span[1] - span[0]) // unit
        loops = tuple(replace(x, size=count) if x.name == loop else x for x in op.loops)
        formula = op.parsed
        if count == 1:
            loops = tuple(x for x in loops if x.name != loop)
            formula = Formula(tuple(_without(dims, loop) for dims in formula.operands), _without(formula.result, loop))
        read = tuple(self._name(of, span) if of in self.values else name
                     for of, name in zip(op.inputs, inputs, strict=True))  # fmt: skip
        return replace(
            op, name=_named(op.name, span), formula=str(formula), inputs=read, loops=loops,
            flops=op.flops * (span[1] - span[0]) / self.size,
        )  # fmt: skip

    def _name(self, name: str, span: Span) -> str:
        """The name of a part: of a parameter by its own indices, of a result by the fused dimension's."""
        unit = 1 if name in self.made else self.values[name].unit
        return _named(name, (span[0] // unit, span[1] // unit))

    def _unsqueezed(self, op: Operator, part: str) -> Operator:
        """A view without the dimension of size 1 that a part has in place of the one that was selected from."""
        dims = op.parsed.operands[0]
        gone = int(op.attributes["dim"])  # pyright: ignore[reportArgumentType]
        operand = tuple(() if d == gone else group for d, group in enumerate(dims))
        there = set(_flat(operand))
        return replace(
            op, inputs=(part,), formula=str(Formula((operand,), op.parsed.result)),
            loops=tuple(x for x in op.loops if x.name in there), attributes={},
        )  # fmt: skip


def _named(name: str, span: Span) -> str:
    return f"{name}[{span[0]}:{span[1]}]"


def _rearranges(op: Operator) -> bool:
    return op.kind == "view" and "fn" not in op.attributes


def _flat(dims: Dims) -> list[str]:
    return [x for group in dims for x in group]


def _without(dims: Dims, loop: str) -> Dims:
    return tuple(tuple(x for x in group if x != loop) for group in dims)
