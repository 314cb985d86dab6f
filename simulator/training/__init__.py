"""Training: iteration time and memory of configurations given by hand (`estimate`, `estimate_many`)."""

from .estimate import estimate, estimate_many
from .model import TransformerShape
from .rates import CORE, MEGATRON_2022, DeviceRates, Stack
from .result import Breakdown, Estimate, Estimates, MemoryParts, TimeParts

__all__ = [
    "CORE",
    "MEGATRON_2022",
    "Breakdown",
    "DeviceRates",
    "Estimate",
    "Estimates",
    "MemoryParts",
    "Stack",
    "TimeParts",
    "TransformerShape",
    "estimate",
    "estimate_many",
]
