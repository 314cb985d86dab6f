"""Token-by-token serving for real, and the simulator compared with measurements.

`engine` is a small real LLM engine that runs the simulator's own schedulers; begin with ``engine/engine.py``. `measure`
times its layers on the present device. `compare` holds the simulator against that engine, against benchmark rows that
others measured, and against recorded runs of vLLM (`vllm_files`, `vllm_engine`).
"""

from .compare.silicon import Benchmark, Predicted, SiliconComparison, SiliconRow, compare_silicon, read_silicon
from .compare.vllm_run import RunComparison, compare_vllm_run
from .vllm_files import VLLMRun, read_vllm_run

__all__ = [
    "Benchmark",
    "Predicted",
    "RunComparison",
    "SiliconComparison",
    "SiliconRow",
    "VLLMRun",
    "compare_silicon",
    "compare_vllm_run",
    "read_silicon",
    "read_vllm_run",
]
