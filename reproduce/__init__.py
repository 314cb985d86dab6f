"""Reproductions: one module per figure or table of a paper, each with its data, its picture and its verdicts.

``meshwright reproduce figure02`` or ``python -m meshwright.reproduce.alpaserve.fig02``.
"""

from .claims import Claim, Expectation, Rule, at_least, at_most, between, within
from .figures import FIGURES, reproduce, titles
from .report import Report, verdict_table

__all__ = [
    "FIGURES",
    "Claim",
    "Expectation",
    "Report",
    "Rule",
    "at_least",
    "at_most",
    "between",
    "reproduce",
    "titles",
    "verdict_table",
    "within",
]
