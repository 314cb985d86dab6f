"""Decisions without a clock: the owner of the time, a simulator or the real runtime, asks for them.

`controller` dispatches and admits by predicted times, `batching` forms batches too, and `following` corrects the
predictions of either by what really happens. The SimPy reference and the real controller use these very objects. The
compiled engines restate them as arithmetic, and property tests check that both decide alike.
"""

from .batching import Batch, Batching, BatchingController
from .controller import DISPATCH, TOLERANCE_S, Controller, Decision, check_dispatch
from .following import Following, Job

__all__ = ["DISPATCH", "TOLERANCE_S", "Batch", "Batching", "BatchingController", "Controller", "Decision", "Following",
           "Job", "check_dispatch"]  # fmt: skip
