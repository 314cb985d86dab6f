"""The simulator against benchmark rows that others measured: `rows` reads, `predict` simulates, `report` compares."""

from .predict import compare_silicon
from .report import Benchmark, Predicted, SiliconComparison
from .rows import SiliconRow, Skipped, read_silicon, sift_silicon

__all__ = [
    "Benchmark", "Predicted", "SiliconComparison", "SiliconRow", "Skipped", "compare_silicon", "read_silicon",
    "sift_silicon",
]  # fmt: skip
