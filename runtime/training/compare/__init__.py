"""Plans really run, held against what the simulator says of them: any plans, token slices, branches at once."""

from .plans import WITHIN, Compared, TrainingComparison, compare_training

__all__ = ["WITHIN", "Compared", "TrainingComparison", "compare_training"]
