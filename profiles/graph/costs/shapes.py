"""Shapes of what an operator computes on one device: matrix products forward and backward, and bytes of its tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..notation import Dims
from ..operator import DTYPE_BYTES, Operator

__all__ = ["Local", "Product", "local"]


@dataclass(frozen=True, slots=True)
class Product:
    """`batch` matrix products [m, k] x [k, n] in one kernel.

    Parameters
    ----------
    batch, m, n, k : float
        Sizes on one device. `k` follows from the FLOPs: of a convolution, channels times kernel (implicit GEMM).
    bytes : float
        Bytes of both operands and the result together.
    """

    batch: float
    m: float
    n: float
    k: float
    bytes: float

    @property
    def flops(self) -> float:
        """Floating-point operations."""
        return 2.0 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Local:
    """What one device holds and computes of an operator.

    Parameters
    ----------
    operator : Operator
        The full operator.
    sizes : mapping
        Loop -> trip count on one device.
    flops : float
        Forward FLOPs on one device.
    """

    operator: Operator
    sizes: Mapping[str, float]
    flops: float

    def elements(self, dims: Dims) -> float:
        """Elements of a tensor with these dimensions."""
        return math.prod(self.sizes[x] for group in dims for x in group)

    def bytes(self, dims: Dims) -> float:
        """Size of a tensor with these dimensions, in the operator's type."""
        return self.elements(dims) * DTYPE_BYTES[self.operator.dtype]

    @property
    def operand_bytes(self) -> tuple[float, ...]:
        """Size of each operand, bytes."""
        return tuple(self.bytes(dims) for dims in self.operator.parsed.operands)

    @property
    def result_bytes(self) -> float:
        """Size of the result, bytes."""
        return self.bytes(self.operator.parsed.result)

    def is_weight(self, operand: int) -> bool:
        """Whether an operand is no activation: an activation has a loop that grows with the samples."""
        grows = {x.name for x in self.operator.loops if x.batch}
        return bool(grows) and not grows & _loops(self.operator.parsed.operands[operand])

    def forward(self) -> Product:
        """The product of the forward pass."""
        operands = self.operator.parsed.operands
        return self._product(self.operator.parsed.result, operands[0], operands[1:])

    def gradient(self, operand: int) -> Product:
        """The product that makes the gradient of one operand: of the result's gradient and the other operands."""
        formula = self.operator.parsed
        others = tuple(dims for k, dims in enumerate(formula.operands) if k != operand)
        # The gradient of a weight is [inputs, samples] x [samples, outputs]: its columns are those of the result.
        first, rest = (others[0], (formula.result, *others[1:])) if operand else (formula.result, others)
        return self._product(formula.operands[operand], first, rest)

    def _product(self, target: Dims, left: Dims, right: tuple[Dims, ...]) -> Product:
        goal, a, b = _loops(target), _loops(left), {x for dims in right for x in _loops(dims)}
        both = goal & a & b
        batch = math.prod(self.sizes[x] for x in both)
        n = math.prod(self.sizes[x] for x in goal & b - both)
        m = math.prod(self.sizes[x] for x in goal - b - both)
        moved = sum(self.bytes(dims) for dims in (target, left, *right))
        return Product(batch, m, n, max(1.0, self.flops / (2.0 * batch * m * n)), moved)


def local(operator: Operator, parts: Mapping[str, int]) -> Local:
    """An operator on one device.

    Parameters
    ----------
    operator : Operator
        The full operator.
    parts : mapping
        Loop -> number of pieces that the mesh cuts it into; loops that are not named are whole.
    """
    sizes = {x.name: x.size / parts.get(x.name, 1) for x in operator.loops}
    return Local(operator, sizes, operator.flops / math.prod(parts.get(x, 1) for x in sizes))


def _loops(dims: Dims) -> set[str]:
    return {x for group in dims for x in group}
