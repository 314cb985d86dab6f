"""Real execution of training plans: programs of actions on groups of processes, held against a single device."""

from .executor import Span
from .run import Difference, TrainingRun, program_of, run_training
from .session import TrainingSession

__all__ = ["Difference", "Span", "TrainingRun", "TrainingSession", "program_of", "run_training"]
