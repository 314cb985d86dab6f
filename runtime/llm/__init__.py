"""Token-by-token serving held against reality: measured rows of benchmarks, and recorded runs of vLLM."""

from .silicon import compare_silicon
from .silicon_report import Benchmark, Predicted, SiliconComparison
from .silicon_rows import SiliconRow, read_silicon
from .vllm_files import VLLMRun, read_vllm_run
from .vllm_run import RunComparison, compare_vllm_run

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
