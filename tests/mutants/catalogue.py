"""All mutants."""

from __future__ import annotations

from mutant import Mutant
from planted import inputs, llm, planners, runtime, serving, sharing, training

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    *serving.MUTANTS,
    *llm.MUTANTS,
    *training.MUTANTS,
    *sharing.MUTANTS,
    *planners.MUTANTS,
    *inputs.MUTANTS,
    *runtime.MUTANTS,
)
