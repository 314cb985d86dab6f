"""`Passing`: what a stage keeps of a microbatch between its forward pass and its backward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .layout import OperatorRun, StageLayout

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Passing", "Taped", "hidden_results"]


@dataclass(eq=False)
class Taped:
    """One operator of one microbatch: what it read and what it made.

    Operands are leaves of autograd, or None where a copy is gathered again; `made` is None where the operator is
    computed again.
    """

    run: OperatorRun
    operands: list[Tensor | None]
    made: Tensor | None
    statistics: list[Tensor] = field(default_factory=list)
    """Sums over devices in its forward pass (of norms, softmax), so that computing it again needs no communication."""


@dataclass(eq=False)
class Passing:
    """What is kept of a microbatch until its backward pass: values, what operators read and made, weights' halves."""

    values: dict[str, Tensor] = field(default_factory=dict)
    tape: dict[int, Taped] = field(default_factory=dict)
    weights: list[tuple[Taped, Tensor]] = field(default_factory=list)
    copies: dict[int, Tensor] = field(default_factory=dict)
    """Copies of first operands that several operators share, by the position of the first of these operators."""
    shared: dict[int, Tensor] = field(default_factory=dict)
    """Sums of the gradients of those copies, by the same position."""


def hidden_results(layout: StageLayout, redo: tuple[tuple[int, ...], ...]) -> set[str]:
    """Results that only operators of their own recomputed group read: they need not be kept after the forward pass."""
    hidden: set[str] = set()
    for group in redo:
        mine = {layout.operators[i].op.name for i in group}
        outside = {
            name for i, run in enumerate(layout.operators) if i not in group for name in run.op.inputs if name in mine
        }
        hidden |= mine - outside - set(layout.sent)
    return hidden
