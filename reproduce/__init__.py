"""Reproductions: one module per figure or table of a paper, each with its data, its picture and its verdicts.

``meshwright reproduce vllm/fig12`` or ``python -m meshwright.reproduce.vllm.fig12``.
"""

from .catalogue import FIGURES, PAPERS, Figure, Paper, resolve
from .claims import Claim, Expectation, Rule, at_least, at_most, between, within
from .figures import reproduce
from .report import Report, verdict_table

__all__ = [
    "FIGURES",
    "PAPERS",
    "Claim",
    "Expectation",
    "Figure",
    "Paper",
    "Report",
    "Rule",
    "at_least",
    "at_most",
    "between",
    "reproduce",
    "resolve",
    "verdict_table",
    "within",
]
