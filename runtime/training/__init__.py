"""Real execution of training plans: programs of actions on groups of processes, held against a single device."""

from .executor import Span
from .measure.slices import SliceGrid, SliceMeasurements, SliceTimes, measure_slices
from .options import RunOptions
from .run import Difference, TrainingRun, program_of, run_training
from .session import TrainingSession

__all__ = [
    "Difference", "RunOptions", "SliceGrid", "SliceMeasurements", "SliceTimes", "Span", "TrainingRun",
    "TrainingSession", "measure_slices", "program_of", "run_training",
]  # fmt: skip
