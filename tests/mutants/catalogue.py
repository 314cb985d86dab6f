"""All mutants."""

from __future__ import annotations

import mutants_inputs
import mutants_llm
import mutants_planners
import mutants_runtime
import mutants_serving
import mutants_sharing
import mutants_training
from mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    *mutants_serving.MUTANTS,
    *mutants_llm.MUTANTS,
    *mutants_training.MUTANTS,
    *mutants_sharing.MUTANTS,
    *mutants_planners.MUTANTS,
    *mutants_inputs.MUTANTS,
    *mutants_runtime.MUTANTS,
)
