"""Real execution of training plans: programs of actions on groups of processes, held against a single device."""

from .executor import Span
from .run import Difference, TrainingRun, plan_program, run_training
from .session import TrainingSession

__all__ = ["Difference", "Span", "TrainingRun", "TrainingSession", "plan_program", "run_training"]
