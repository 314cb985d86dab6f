"""A small real LLM engine: random weights, paged KV cache, the simulator's own schedulers and block managers.

Needs torch.
"""

from __future__ import annotations

from .adapters.table import Emitted, Finished
from .engine import LLMEngine, StepOutput, StepTimes
from .options import EngineConfig
from .sampling import GREEDY, Sampling
from .serving import serve_trace
from .step_log import StepLog

__all__ = [
    "GREEDY",
    "Emitted",
    "EngineConfig",
    "Finished",
    "LLMEngine",
    "Sampling",
    "StepLog",
    "StepOutput",
    "StepTimes",
    "serve_trace",
]
