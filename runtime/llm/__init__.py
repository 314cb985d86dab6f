"""Token-by-token serving held against reality: measured rows of benchmarks, and recorded runs of vLLM."""

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
