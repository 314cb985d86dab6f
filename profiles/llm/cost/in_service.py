"""`InService`: costs of iterations, corrected by what such iterations took while the engine served.

Tables are taken pass by pass. In service a pass meets what the host and the passes before it left in the caches, and
after a pause it meets nothing: a small model on a CPU is a tenth faster or slower then. A short run, or a part of one,
says how much, by what an iteration computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....errors import InputError
from ..iteration import Iteration, IterationCost

__all__ = ["KINDS", "Factors", "InService", "kind_of"]

KINDS = ("decodes", "both", "prompts")
FEWEST = 4
"""Iterations from which on a batch size has a factor of its own: a median of fewer follows single disturbances."""


def kind_of(iteration: Iteration) -> str:
    """``decodes``, ``prompts``, or ``both``."""
    return "decodes" if not iteration.prefill else "both" if iteration.decodes else "prompts"


@dataclass(frozen=True, slots=True)
class Factors:
    """Time over cost of one kind of iteration, by the number of decodes.

    Parameters
    ----------
    decodes : tuple of int
        Numbers of decodes, rising.
    factor : tuple of float
        Time over cost at each; between them linear, beyond the nearest.
    count : int
        Iterations that they come from.

    Raises
    ------
    InputError
        If the two differ in length, are empty, or a factor is not above 0.
    """

    decodes: tuple[int, ...]
    factor: tuple[float, ...]
    count: int

    def __post_init__(self) -> None:
        if not self.decodes or len(self.decodes) != len(self.factor) or not all(f > 0 for f in self.factor):
            raise InputError(f"factors: expected one above 0 for each number of decodes (got {self})")

    def at(self, decodes: int) -> float:
        """The factor of an iteration with so many decodes."""
        return float(np.interp(decodes, self.decodes, self.factor))

    def __str__(self) -> str:
        low, high = min(self.factor), max(self.factor)
        span = f"x {low:.3f}" if low == high else f"x {low:.3f} to {high:.3f}"
        return f"{span} ({self.count})"


@dataclass(frozen=True, slots=True)
class InService:
    """An `IterationCost`: another one times the factor of the iteration's kind.

    Parameters
    ----------
    cost : IterationCost
        What tables say.
    decodes, both, prompts : Factors
        By kind.
    """

    cost: IterationCost
    decodes: Factors
    both: Factors
    prompts: Factors

    @classmethod
    def of(cls, cost: IterationCost, cycles: Sequence[tuple[Iteration, float]]) -> InService:
        """From iterations in service and their seconds.

        A kind that hardly occurred takes the factor of all together.

        Raises
        ------
        InputError
            If there is no iteration.
        """
        if not cycles:
            raise InputError("in service: no undisturbed iteration to learn from; serve longer")
        told = [(kind_of(i), i.decodes, cost.seconds(i), seconds) for i, seconds in cycles]
        whole = sum(t[3] for t in told) / sum(t[2] for t in told)
        found: dict[str, Factors] = {}
        for kind in KINDS:
            mine = [t for t in told if t[0] == kind]
            sizes: list[int] = []
            factors: list[float] = []
            for n in sorted({t[1] for t in mine}):
                same = [t for t in mine if t[1] == n]
                if len(same) >= FEWEST:
                    sizes.append(n)
                    factors.append(float(np.median([seconds / said for _, _, said, seconds in same])))
            if not sizes:
                sizes, factors = [0], [float(np.median([t[3] / t[2] for t in mine])) if len(mine) > 1 else whole]
            found[kind] = Factors(tuple(sizes), tuple(factors), len(mine))
        return cls(cost, found["decodes"], found["both"], found["prompts"])

    def seconds(self, iteration: Iteration) -> float:
        """Seconds of an iteration."""
        factors: Factors = getattr(self, kind_of(iteration))
        return self.cost.seconds(iteration) * factors.at(iteration.decodes)

    def __str__(self) -> str:
        return "; ".join(f"{kind} {getattr(self, kind)}" for kind in KINDS)
