"""`Running`: the buffers in which a batch norm keeps statistics of what it saw, and what they hold of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from .operator import Operator

__all__ = ["Running", "running_buffers", "started", "updated"]


@dataclass(frozen=True, slots=True)
class Running:
    """Buffers that a norm updates with every microbatch, as torch's batch norms do; no operator reads them.

    A microbatch's mean and unbiased variance are those that the norm itself takes: over all of its statistic loops,
    whatever devices these are cut over.

    Parameters
    ----------
    mean, variance : str
        Names of the buffers: new = (1 − momentum) · old + momentum · the microbatch's.
    momentum : float
        Between 0 and 1.
    batches : str
        The buffer that counts microbatches; "" where there is none.
    """

    mean: str
    variance: str
    momentum: float
    batches: str = ""

    def __post_init__(self) -> None:
        if not (self.mean and self.variance) or len({self.mean, self.variance, self.batches}) < 3:
            raise InputError(f"running: expected names of different buffers (got {self.mean!r}, {self.variance!r})")
        if not 0.0 <= self.momentum <= 1.0:
            raise InputError(f"running: momentum: expected a number from 0 to 1 (got {self.momentum!r})")

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Running:
        """What `document` wrote.

        Raises
        ------
        InputError
            If a field is missing, unknown or of another type.
        """
        words = {"mean": str, "variance": str, "momentum": float, "batches": str}
        if row.keys() - words or {"mean", "variance", "momentum"} - row.keys():
            raise InputError(f"running: expected mean, variance, momentum and perhaps batches (got {sorted(row)})")
        wrong = next((key for key in row if not isinstance(row[key], words[key])), None)
        if wrong is not None:
            raise InputError(f"running: {wrong}: expected {words[wrong].__name__} (got {row[wrong]!r})")
        return cls(**row)

    def document(self) -> dict[str, Any]:
        """The fields as JSON can hold them."""
        row = {"mean": self.mean, "variance": self.variance, "momentum": float(self.momentum)}
        return {**row, "batches": self.batches} if self.batches else row

    @property
    def names(self) -> tuple[str, ...]:
        """All of its buffers."""
        return tuple(name for name in (self.mean, self.variance, self.batches) if name)

    def shapes(self, op: Operator) -> dict[str, tuple[int, ...]]:
        """Shape of each buffer of the norm that has it: one value for each channel, the second dimension."""
        each = op.shape_of((op.parsed.operands[0][1],))
        return {name: () if name == self.batches else each for name in self.names}


def running_buffers(operators: Iterable[Operator]) -> dict[str, tuple[int, ...]]:
    """Name of every buffer that some norms update -> its shape."""
    found: dict[str, tuple[int, ...]] = {}
    for op in operators:
        if op.running is not None:
            found |= op.running.shapes(op)
    return found


def started(operators: Iterable[Operator], name: str, dtype: str) -> Tensor:
    """What torch's batch norms have in a buffer before they saw anything: means of 0, variances of 1, no microbatches.

    Raises
    ------
    InputError
        If no norm has that buffer.
    """
    import torch

    for op in operators:
        if op.running is not None and name in op.running.names:
            shape = op.running.shapes(op)[name]
            if name == op.running.batches:
                return torch.zeros(shape, dtype=torch.int64)
            return torch.full(shape, float(name == op.running.variance), dtype=getattr(torch, dtype))
    raise InputError(f"graph: no parameter and no running statistic {name!r}")


def updated(op: Operator, buffers: Mapping[str, Tensor], mean: Tensor, variance: Tensor) -> None:
    """Write a microbatch's mean and biased variance of each channel into the buffers of a norm, in place."""
    running = op.running
    if running is None:
        raise InputError(f"operator {op.name!r} has no running statistics")
    n = math.prod(x.size for x in op.loops if x.split == "statistic")
    unbiased = variance * (n / (n - 1)) if n > 1 else variance
    for name, new in ((running.mean, mean), (running.variance, unbiased)):
        old = buffers[name]
        old.mul_(1.0 - running.momentum).add_(new.detach().reshape(old.shape).to(old.dtype), alpha=running.momentum)
    if running.batches:
        buffers[running.batches].add_(1)
