"""Training plans, really run: one process per device trains on this machine's cores, and a comparison on one device.

The processes execute the same programs of actions (forward, backward, send, receive, …) that the simulator times. Begin
with `run.run_training`; it gives a `job` to the workers of a `session`. In each worker, `executor` walks through the
actions, `stage` computes, and `wires` communicates. What the user brings, data, weights and optimiser, is in `own`.
Microbatches cut into token slices are in `slices`, stages with microbatch sizes of their own in `graphs`. `measure`
times stages for the simulator, `compare` holds simulated and real iterations side by side, and `single` and
`module_run` are the references on one device.
"""

from .difference import Difference
from .executor import Span
from .measure.slices import SliceGrid, SliceMeasurements, SliceTimes, measure_slices
from .options import RunOptions
from .own.brought import Own
from .own.optimizer import Group, TorchOptimizer
from .own.schedule import Schedule
from .result import TrainingRun
from .run import program_of, run_training
from .session import TrainingSession

__all__ = [
    "Difference", "Group", "Own", "RunOptions", "Schedule", "SliceGrid", "SliceMeasurements", "SliceTimes", "Span",
    "TorchOptimizer", "TrainingRun", "TrainingSession", "measure_slices", "program_of", "run_training",
]  # fmt: skip
