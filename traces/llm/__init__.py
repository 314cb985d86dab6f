"""Logs of language-model requests as they are published: Azure LLM, BurstGPT, Mooncake, and results of vLLM's bench."""

from .datasets import dataset_lengths, is_dataset
from .formats import FORMATS, read_log, sniff_log
from .log import TokenLog

__all__ = ["FORMATS", "TokenLog", "dataset_lengths", "is_dataset", "read_log", "sniff_log"]
