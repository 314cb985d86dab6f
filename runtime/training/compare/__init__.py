"""Simulated iterations beside real ones, on this machine.

Begin with `plans.compare_training`, which calibrates, simulates and runs any plans. `slices` and `graph` make plans for
it: token slices of a pipeline, and branches of a model trained at once. ``python -m
meshwright.runtime.training.compare`` runs all three.
"""

from .plans import WITHIN, Compared, TrainingComparison, compare_training

__all__ = ["WITHIN", "Compared", "TrainingComparison", "compare_training"]
