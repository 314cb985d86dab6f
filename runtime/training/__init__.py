"""Training plans, really run: one process per device trains on this machine's cores, and a comparison on one device.

The processes execute the same programs of actions (forward, backward, send, receive, …) that the simulator times. Begin
with `run.run_training`; it gives a `job` to the workers of a `session`. In each worker, `executor` walks through the
actions, `stage` computes, and `wires` communicates. Microbatches cut into token slices are in `slices`, stages with
microbatch sizes of their own in `graphs`. `measure` times stages for the simulator, `compare` holds simulated and real
iterations side by side, and `single` and `module_run` are the references on one device.
"""

from .executor import Span
from .measure.slices import SliceGrid, SliceMeasurements, SliceTimes, measure_slices
from .options import RunOptions
from .run import Difference, TrainingRun, program_of, run_training
from .session import TrainingSession

__all__ = [
    "Difference", "RunOptions", "SliceGrid", "SliceMeasurements", "SliceTimes", "Span", "TrainingRun",
    "TrainingSession", "measure_slices", "program_of", "run_training",
]  # fmt: skip
