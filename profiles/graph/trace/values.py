"""Values of a trace and the algebra of their dimensions: what merges, splits and lines up.

A size is a pair: what it is at the batch of the first trace and at that of the second. A size whose pair differs grows
with the batch. A dimension is a list of such sizes, major first: more than one after a reshape has merged dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["ONE", "Atoms", "Size", "Value", "regroup", "reshaped", "total", "unified"]

Size = tuple[int, int]
Atoms = tuple[Size, ...]
ONE: Size = (1, 1)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the trace.

    Parameters
    ----------
    name : str
        Of the operator, parameter or input that makes it.
    dims : tuple of Atoms
        Sizes of every dimension; ``()`` for a dimension of size 1.
    dtype : str
        Key of `DTYPE_BYTES`.
    grad : bool
        Whether backward goes through it.
    pairs : bool
        Whether it is of complex numbers: its last dimension is the real and the imaginary part.
    """

    name: str
    dims: tuple[Atoms, ...]
    dtype: str
    grad: bool
    pairs: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape at the first trace's batch."""
        return tuple(total(dim)[0] for dim in self.dims)


def total(atoms: Iterable[Size]) -> Size:
    """Size of a dimension."""
    first, second = 1, 1
    for a, b in atoms:
        first, second = first * a, second * b
    return first, second


def atoms_of(size: Size) -> Atoms:
    """A dimension that nothing is known of but its size."""
    return () if size == ONE else (size,)


def unified(lists: Sequence[Atoms]) -> Atoms:
    """The coarsest atoms that all of these dimensions of one size split into; one atom where they do not line up."""
    found = lists[0]
    for other in lists[1:]:
        finer = _refined(found, other)
        if finer is None:
            return atoms_of(total(lists[0]))
        found = finer
    return found


def reshaped(dims: Sequence[Atoms], sizes: Sequence[Size]) -> tuple[tuple[Atoms, ...], tuple[Atoms, ...]] | None:
    """Both sides of a reshape, dimension by dimension, in the same atoms; None where they do not line up."""
    finer = _refined([a for dim in dims for a in dim], [s for s in sizes if s != ONE])
    if finer is None:
        return None
    return regroup(finer, [total(dim) for dim in dims]), regroup(finer, sizes)


def regroup(atoms: Sequence[Size], sizes: Sequence[Size]) -> tuple[Atoms, ...]:
    """The atoms handed out to dimensions of these sizes, in order; each dimension takes what makes up its size."""
    groups, at = list[Atoms](), 0
    for size in sizes:
        start = at
        while total(atoms[start:at]) != size:
            at += 1
        groups.append(tuple(atoms[start:at]))
    return tuple(groups)


def _refined(one: Sequence[Size], other: Sequence[Size]) -> Atoms | None:
    """Common refinement of two factorings of one number, major first."""
    a, b, out = list(reversed(one)), list(reversed(other)), list[Size]()
    while a and b:
        x, y = a.pop(), b.pop()
        if x == y:
            out.append(x)
        elif _divides(x, y):
            out.append(x)
            b.append((y[0] // x[0], y[1] // x[1]))
        elif _divides(y, x):
            out.append(y)
            a.append((x[0] // y[0], x[1] // y[1]))
        else:
            return None
    return None if a or b else tuple(out)


def _divides(x: Size, y: Size) -> bool:
    """Whether y is x times a size that is plain or grows as batches do; a growing x leaves nothing that grows."""
    if y[0] % x[0] or y[1] % x[1]:
        return False
    quotient = y[0] // x[0], y[1] // x[1]
    plain = quotient[0] == quotient[1]
    return plain or (x[0] == x[1] and quotient[0] * y[1] == quotient[1] * y[0])


def elements(value: Value) -> int:
    """Number of elements at the first trace's batch."""
    return math.prod(value.shape)
