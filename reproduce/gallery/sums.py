"""Findings by paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..catalogue import FIGURES, PAPERS
from ..claims import Verdict
from ..made import Made

__all__ = ["Sum", "of_papers"]


@dataclass(frozen=True)
class Sum:
    """What some figures have: how many they are, their findings by verdict, other claims, processor seconds."""

    figures: int = 0
    counts: Counter[Verdict] = field(default_factory=Counter[Verdict])
    others: int = 0
    cpu_s: float = 0.0

    @property
    def findings(self) -> int:
        """All findings, judged or not."""
        return self.counts.total()

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            self.figures + other.figures,
            self.counts + other.counts,
            self.others + other.others,
            self.cpu_s + other.cpu_s,
        )


def of_papers(made: Sequence[Made]) -> dict[str, Sum]:
    """Paper -> its sum, in the catalogue's order; papers without a figure are left out."""
    found = {paper: Sum() for paper in PAPERS}
    for one in made:
        findings: Counter[Verdict] = Counter(claim.verdict for claim in one.claims if claim.kind == "finding")
        found[FIGURES[one.name].paper] += Sum(1, findings, len(one.claims) - findings.total(), one.cpu_s)
    return {paper: sum_ for paper, sum_ in found.items() if sum_.figures}
