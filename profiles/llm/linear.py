"""`ConstantCost` and `LinearCost`: the time of an iteration by hand, for teaching, tests, and published linear fits."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from ...errors import InputError
from ...reprs import Shown
from .iteration import Iteration

__all__ = ["ConstantCost", "LinearCost"]


@dataclass(frozen=True, slots=True, repr=False)
class ConstantCost(Shown):
    """Every iteration takes the same time.

    Parameters
    ----------
    iteration_s : float
        Seconds, > 0.
    """

    iteration_s: float = 1.0

    def __post_init__(self) -> None:
        given: Any = self.iteration_s
        if not (isinstance(given, Real) and 0 < float(given) < math.inf):
            raise InputError(f"iteration_s: expected finite seconds > 0 (got {given!r})")

    def seconds(self, iteration: Iteration) -> float:
        """Seconds of an iteration."""
        return self.iteration_s


@dataclass(frozen=True, slots=True, repr=False)
class LinearCost(Shown):
    """Linear in what an iteration computes and reads.

    Parameters
    ----------
    base_s : float
        Seconds of any iteration: weights are read, kernels launched.
    token_s : float
        Per token that passes through the matrices, seconds.
    context_s : float
        Per token whose keys and values a decode reads, seconds.
    pair_s : float
        Per pair of a prompt's token and one that it attends to (itself and those before it), seconds.
    decode_s : float
        Per decoding sequence, seconds.
    """

    base_s: float
    token_s: float = 0.0
    context_s: float = 0.0
    pair_s: float = 0.0
    decode_s: float = 0.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value: Any = getattr(self, each.name)
            if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
                raise InputError(f"{each.name}: expected finite seconds >= 0 (got {value!r})")
        if not self.base_s + self.token_s > 0:
            raise InputError("base_s: expected base_s or token_s above 0, or iterations take no time")

    def seconds(self, iteration: Iteration) -> float:
        """Seconds of an iteration."""
        pairs = sum(new * before + new * (new + 1) // 2 for new, before in iteration.prefill) if self.pair_s else 0
        return (
            self.base_s
            + self.token_s * iteration.tokens
            + self.context_s * iteration.context
            + self.pair_s * pairs
            + self.decode_s * iteration.decodes
        )
