"""What a stage keeps of a microbatch between its forward and its backward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .layout import OperatorRun, StageLayout

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Passing", "Taped", "hidden_results"]


@dataclass(eq=False)
class Taped:
    """One operator of one microbatch: what it read (leaves; None where that is made again) and what it made."""

    run: OperatorRun
    operands: list[Tensor | None]
    made: Tensor | None
    statistics: list[Tensor] = field(default_factory=list)
    """Sums over devices that its forward pass found, where it is computed again."""


@dataclass(eq=False)
class Passing:
    """What a microbatch keeps until its backward pass."""

    values: dict[str, Tensor] = field(default_factory=dict)
    tape: dict[int, Taped] = field(default_factory=dict)
    weights: list[tuple[Taped, Tensor]] = field(default_factory=list)
    copies: dict[int, Tensor] = field(default_factory=dict)
    """First operands that later operators share, by the position of the first that reads them so."""
    shared: dict[int, Tensor] = field(default_factory=dict)
    """Gradients that those operators made of them."""


def hidden_results(layout: StageLayout, redo: tuple[tuple[int, ...], ...]) -> set[str]:
    """Results of groups that are made again which nobody outside their group reads."""
    hidden: set[str] = set()
    for group in redo:
        mine = {layout.operators[i].op.name for i in group}
        outside = {
            name for i, run in enumerate(layout.operators) if i not in group for name in run.op.inputs if name in mine
        }
        hidden |= mine - outside - set(layout.sent)
    return hidden
