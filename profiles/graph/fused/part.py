"""`FusedPart`: where a tensor of the graph lies in the module's parameter that it is a part of."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....errors import InputError
from ....reprs import Shown

__all__ = ["FusedPart", "parameter_of"]

_RANGE = re.compile(r"\[\d+:\d+\]$")


@dataclass(frozen=True, slots=True, repr=False)
class FusedPart(Shown):
    """A range of one dimension of a module's parameter.

    The parts of a parameter lie one after another along one dimension, without gaps.

    Parameters
    ----------
    of : str
        Qualified name of the parameter.
    shape : tuple of int
        The parameter's shape.
    dim : int
        The dimension.
    start : int
        Where the range begins; the tensor's shape says where it ends.
    """

    of: str
    shape: tuple[int, ...]
    dim: int
    start: int

    def __post_init__(self) -> None:
        if not 0 <= self.dim < len(self.shape) or not 0 <= self.start < self.shape[self.dim]:
            raise InputError(
                f"part of {self.of!r}: expected a dimension of {self.shape} and a start inside it "
                f"(got dim {self.dim}, start {self.start})"
            )

    def check(self, shape: tuple[int, ...], name: str) -> None:
        """Refuse the shape of a tensor that is no such part.

        Raises
        ------
        InputError
            If it is not the parameter's but for the dimension, or ends beyond it.
        """
        size = shape[self.dim] if len(shape) == len(self.shape) else 0
        other = tuple(n for d, n in enumerate(shape) if d != self.dim)
        whole = tuple(n for d, n in enumerate(self.shape) if d != self.dim)
        if other != whole or not 0 < size <= self.shape[self.dim] - self.start:
            raise InputError(
                f"tensor {name!r}: shape {shape} is no part of {self.of!r} of shape {self.shape} from {self.start} on "
                f"in dimension {self.dim}"
            )


def parameter_of(name: str) -> str:
    """The module's parameter of a tensor's name: ``qkv.weight`` of ``qkv.weight[0:64]``, and of any other the name."""
    return _RANGE.sub("", name)
