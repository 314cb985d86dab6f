"""`Draft`: the graph under construction. Operators are added by values; loops follow from how dimensions line up."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..operator import Loop, Operator, Scalar
from .values import Atoms, Size, Value, atoms_of, total, unified

__all__ = ["Axes", "Draft", "Labels"]

Labels = Sequence[Hashable | None]
"""For every dimension the axis that it lies along; None: a dimension of size 1 that is broadcast or made; a tuple: the
axes that it is made of, major first, whose sizes must be given."""

# Names of loops in the order in which they are given out: batch, sequence, hidden and the like come first, as models
# use them.
LETTERS = "bshdnmktuvwxyzacefgijlopqr"


@dataclass(frozen=True, slots=True)
class Axes:
    """How the dimensions of an operator's operands and of its result line up.

    Parameters
    ----------
    operands : sequence of (Value, Labels)
        What it reads, and the axes of its dimensions. Dimensions with one label are cut together.
    result : Labels
        Axes of the result.
    sizes : mapping
        Sizes of axes that no operand has.
    splits : mapping
        Axis -> "statistic" or "whole"; others are free.
    names : mapping
        Attribute of the operator -> axis: attributes that hold the name of a loop. Such an axis is one loop, whatever
        it was merged of: what names a loop says nothing of the others.
    single : sequence
        Other axes that must be one loop.
    """

    operands: Sequence[tuple[Value, Labels]]
    result: Labels
    sizes: Mapping[Any, Size] = field(default_factory=dict[Any, Size])
    splits: Mapping[Any, str] = field(default_factory=dict[Any, str])
    names: Mapping[str, Any] = field(default_factory=dict[str, Any])
    single: Sequence[Hashable] = ()


class Draft:
    """Operators in the making.

    Parameters
    ----------
    taken : collection of str
        Names of inputs and parameters, which operators may not have.
    inference : bool
        Whether nothing runs backward: what only inference has may then be said.
    """

    def __init__(self, taken: set[str], inference: bool = False) -> None:
        self.inference = inference
        self.operators: list[Operator] = []
        self.taken = set(taken)
        self.path = ""
        """Module that the operators from here on belong to."""
        self.layer = -1

    def add(
        self, word: str, kind: str, axes: Axes, *, dtype: str = "", saves: Sequence[int] = (), flops: float = -1.0,
        grad: bool | None = None, attributes: Mapping[str, Scalar] | None = None,
    ) -> Value:  # fmt: skip
        """Add an operator.

        Parameters
        ----------
        word : str
            What its name ends with.
        kind : str
            Of `KINDS`.
        axes : Axes
            What it reads, and how dimensions line up.
        dtype : str
            Of the result; by default the first operand's.
        saves : sequence of int
            What backward reads; kept only if backward comes this way.
        flops : float
            As in `Operator`.
        grad : bool, optional
            Whether backward goes through the result; by default if it does through an operand.
        attributes : mapping, optional
            Of the operator.
        """
        operands, result = axes.operands, axes.result
        found: dict[Hashable, list[Atoms]] = {}
        for value, labels in operands:
            for dim, label in zip(value.dims, labels, strict=True):
                if label is not None and not isinstance(label, tuple):
                    found.setdefault(label, []).append(dim)
        atoms: dict[Hashable, Atoms] = {label: unified(lists) for label, lists in found.items()}
        atoms |= {label: atoms_of(size) for label, size in axes.sizes.items() if label not in atoms}
        for label in (*axes.names.values(), *axes.single):
            if label in atoms:
                atoms[label] = atoms_of(total(atoms[label]))
        order = [x for label in (*result, *(y for _, labels in operands for y in labels)) for x in _parts(label)]
        loops: dict[Hashable, list[Loop]] = {}
        used: set[str] = set()
        for label in dict.fromkeys(order):
            loops[label] = [_loop(size, axes.splits.get(label, "free"), used) for size in atoms[label]]
        text = [_text(labels, loops) or "." for _, labels in operands]
        formula = f"{', '.join(text)} -> {_text(result, loops)}".strip()
        needs = any(value.grad for value, _ in operands) if grad is None else grad
        extra = {key: loops[label][0].name for key, label in axes.names.items() if loops.get(label)}
        op = Operator(
            self._name(word), kind, formula, tuple(value.name for value, _ in operands),
            tuple(loop for group in loops.values() for loop in group), dtype or operands[0][0].dtype, flops,
            tuple(saves) if needs else (), dict(attributes or {}) | extra, self.layer,
        )  # fmt: skip
        self.operators.append(op)
        dims = tuple(tuple(a for x in _parts(label) for a in atoms[x]) for label in result)
        return Value(op.name, dims, op.dtype, needs)

    def aligned(self, *values: Value) -> Axes:
        """Axes of a function that broadcasts: dimensions line up from the last one; one of size 1 is repeated."""
        rank = max(len(v.dims) for v in values)
        operands: list[tuple[Value, Labels]] = []
        for v in values:
            first = rank - len(v.dims)
            operands.append((v, [k if dim else None for k, dim in enumerate(v.dims, start=first)]))
        there = {label for _, labels in operands for label in labels}
        return Axes(operands, [k if k in there else None for k in range(rank)])

    def _name(self, word: str) -> str:
        stem = f"{self.path}.{word}" if self.path else word
        name, count = stem, 1
        while name in self.taken:
            count += 1
            name = f"{stem}.{count}"
        self.taken.add(name)
        return name


def _loop(size: Size, split: str, used: set[str]) -> Loop:
    grows = size[0] != size[1]
    letters = LETTERS if grows else LETTERS[1:]  # b is the batch
    name = next((x for x in letters if x not in used), "") or f"x{len(used)}"
    used.add(name)
    return Loop(name, size[0], grows, split)  # pyright: ignore[reportArgumentType]


def _text(labels: Labels, loops: Mapping[Hashable, Sequence[Loop]]) -> str:
    words: list[str] = []
    for label in labels:
        names = [loop.name for x in _parts(label) for loop in loops[x]]
        words.append(names[0] if len(names) == 1 else f"({' '.join(names)})")
    return " ".join(words)


def _parts(label: Hashable | None) -> tuple[Hashable, ...]:
    return () if label is None else cast("tuple[Hashable, ...]", label) if isinstance(label, tuple) else (label,)
