"""Simulated iterations beside real ones, on this machine.

Begin with `plans.compare_training`, which measures, simulates and runs any plans; `table` is what it gives. `slices`
and `graph` make plans for it: token slices of a pipeline, and branches of a model trained at once; `measured` reads
plans that were measured before, and `as_planned` takes plans with the times that they were made with. ``python -m
meshwright.runtime.training.compare`` runs all five.
"""

from .plans import compare_measured, compare_training
from .table import WITHIN, Compared, TrainingComparison

__all__ = ["WITHIN", "Compared", "TrainingComparison", "compare_measured", "compare_training"]
