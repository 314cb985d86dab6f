"""The runtime: real execution of a plan, its comparison with the simulator, and its export to other systems."""

from .export import export
from .serving.compare import Comparison, compare
from .serving.controller import Failure
from .serving.measure.calibrate import Calibration, calibrate
from .serving.options import CompareOptions, RunOptions
from .serving.result import RunResult
from .serving.run import run
from .serving.session import Session

__all__ = [
    "Calibration", "CompareOptions", "Comparison", "Failure", "RunOptions", "RunResult", "Session", "calibrate",
    "compare", "export", "run",
]  # fmt: skip
