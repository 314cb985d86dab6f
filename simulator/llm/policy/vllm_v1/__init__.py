"""The scheduler of vLLM's second engine (V1): `scheduler` says its rules, `state` what it works on."""

from .scheduler import V1Scheduler
from .state import V1Config, V1Request, V1Step

__all__ = ["V1Config", "V1Request", "V1Scheduler", "V1Step"]
