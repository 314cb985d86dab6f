"""One-shot DNN serving: groups of pipeline stages (AlpaServe). `simulate` is the door."""

from .batching import Batching
from .policy import DISPATCH, Controller, Decision
from .result import SimulationResult
from .simulate import simulate

__all__ = ["DISPATCH", "Batching", "Controller", "Decision", "SimulationResult", "simulate"]
