"""Reproductions: one module per figure or table of a paper, each with its data, its picture and its verdicts.

Begin with `catalogue` (which figures there are) and `claims` (how a claim is judged); every figure's module has the
same parts: ``EXPECTED`` (claims and their rules), a function that computes the data, and one that draws it.

``meshwright reproduce vllm/fig12`` or ``python -m meshwright.reproduce.vllm.fig12``.
"""

from .catalogue import FIGURES, PAPERS, Figure, Paper, resolve
from .claims import Claim, Expectation, Rule, at_least, at_most, between, up_to, within
from .figures import reproduce
from .report import Report, verdict_table
from .sensitivity import Sensitivity, Swing

__all__ = [
    "FIGURES",
    "PAPERS",
    "Claim",
    "Expectation",
    "Figure",
    "Paper",
    "Report",
    "Rule",
    "Sensitivity",
    "Swing",
    "at_least",
    "at_most",
    "between",
    "reproduce",
    "resolve",
    "up_to",
    "verdict_table",
    "within",
]
