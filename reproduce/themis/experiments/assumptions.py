"""What Themis' headlines hinge on: each assumption of the workload moved alone, all policies simulated again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...report import Progress
from ...sensitivity import Sensitivity, Swing
from .points import DEMAND, POLICIES, SPREAD, Point, frame_of, over_themis

__all__ = ["ASSUMPTIONS", "Assumption", "Headline", "sensitivities"]


@dataclass(frozen=True)
class Assumption:
    """Something that the paper leaves open.

    Parameters
    ----------
    text : str
        What is assumed, with its value.
    low, high : (str, Mapping)
        Where it is moved to, in words and as fields of `Point`.
    """

    text: str
    low: tuple[str, Mapping[str, Any]]
    high: tuple[str, Mapping[str, Any]]


ASSUMPTIONS = (
    Assumption(
        "slowdown beyond 1, ×1 (Table 1)", ("×0.5", {"excess": 0.5}), ("×6", {"excess": 6.0})
    ),  # a guess: a K80 computes a third as fast as a P100, Azure's network without RDMA may be slower by more
    Assumption(f"work over capacity, {DEMAND:g}", ("1", {"demand": 1.0}), ("4", {"demand": 4.0})),
    Assumption(f"spread of lengths, {SPREAD:g}", ("0.25", {"spread": 0.25}), ("1 (trace)", {"spread": 1.0})),
    Assumption("ties, by lot", ("oldest", {"ties": "first"}), ("lot", {})),
)


@dataclass(frozen=True)
class Headline:
    """A ratio to Themis that the paper prints.

    Parameters
    ----------
    claim, unit : str
        As `Sensitivity` has them.
    paper : float
        The paper's ratio.
    column : str
        Metric.
    of : callable
        Each policy's median ratio -> the headline's.
    """

    claim: str
    unit: str
    paper: float
    column: str
    of: Callable[[Mapping[str, float]], float]

    def value(self, workload: int, seeds: Sequence[int], moved: Mapping[str, Any], progress: Progress) -> float:
        """Our figure where an assumption is moved."""
        points = [replace(Point(p, workload, s), **moved) for s in seeds for p in POLICIES]
        ratios = over_themis(frame_of(points, progress), self.column)
        return self.of({p: float(np.median(v)) for p, v in ratios.items()})


def sensitivities(
    headlines: Sequence[Headline], workload: int, seeds: Sequence[int], progress: Progress
) -> tuple[Sensitivity, ...]:
    """Each headline beside all assumptions."""
    found: list[Sensitivity] = []
    for headline in headlines:
        ours = headline.value(workload, seeds, {}, progress)
        swings = tuple(
            Swing(
                a.text, a.low[0], a.high[0], headline.value(workload, seeds, a.low[1], progress),
                headline.value(workload, seeds, a.high[1], progress),
            )
            for a in ASSUMPTIONS
        )  # fmt: skip
        found.append(
            Sensitivity(
                headline.claim, headline.paper, ours, headline.unit, swings, needed(headline.paper, ours, swings)
            )
        )
    return tuple(found)


def needed(paper: float, ours: float, swings: Sequence[Swing]) -> str:
    """Which of the values tried reach the paper's figure, from our side of it."""
    reached = [
        f"{s.assumption.split(',')[0]} between {s.assumption.split(', ')[1]} and {end}"
        for s in swings
        for end, value in ((s.low, s.at_low), (s.high, s.at_high))
        if (value - paper) * (ours - paper) <= 0
    ]
    return "; ".join(reached) if reached else "none of the values tried, moved alone, reaches the paper's figure"
