"""The runtime: real execution of a plan, its comparison with the simulator, and its export to other systems."""

from .controller import Failure
from .result import RunResult
from .run import run
from .session import Session

__all__ = ["Failure", "RunResult", "Session", "run"]
