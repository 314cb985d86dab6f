"""The runtime: real execution of a plan, its comparison with the simulator, and its export to other systems."""

from .calibrate import Calibration, calibrate
from .compare import Comparison, compare
from .controller import Failure
from .export import export
from .result import RunResult
from .run import run
from .session import Session

__all__ = ["Calibration", "Comparison", "Failure", "RunResult", "Session", "calibrate", "compare", "export", "run"]
