"""What Themis' headlines hinge on: assumptions of workload and mechanism, each moved alone and simulated again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...report import Frame, Progress
from ...sensitivity import Sensitivity, Swing
from .points import DEMAND, POLICIES, SPREAD, Point, frame_of, over_themis

__all__ = [
    "ASSUMPTIONS", "KEYS", "Assumption", "Headline", "best_other", "needed", "of_policy", "sensitivities",
    "worst_other",
]  # fmt: skip


@dataclass(frozen=True)
class Assumption:
    """Something that the paper leaves open, or that a cause is tested by.

    Parameters
    ----------
    text : str
        What is assumed, with its value.
    low, high : (str, Mapping)
        Where it is moved to, in words and as fields of `Point`; no fields: it stays.
    """

    text: str
    low: tuple[str, Mapping[str, Any]]
    high: tuple[str, Mapping[str, Any]]


ASSUMPTIONS: Mapping[str, Assumption] = {
    "excess": Assumption(
        "slowdown beyond 1, ×1 (Table 1)", ("×0.5", {"excess": 0.5}), ("×6", {"excess": 6.0})
    ),  # a guess: a K80 computes a third as fast as a P100, Azure's network without RDMA may be slower by more
    "demand": Assumption(f"work over capacity, {DEMAND:g}", ("1", {"demand": 1.0}), ("4", {"demand": 4.0})),
    "spread": Assumption(f"spread of lengths, {SPREAD:g}", ("0.25", {"spread": 0.25}), ("1 (trace)", {"spread": 1.0})),
    "ties": Assumption("ties, by lot", ("oldest", {"ties": "first"}), ("lot", {})),
    "leases": Assumption("leases end, together", ("apart", {"lease_ends": "apart"}), ("together", {})),
    "optimus": Assumption("Optimus gives, GPU by GPU", ("all at once", {"gain_once": True}), ("GPU by GPU", {})),
    "waiting": Assumption("apps there at the start, 1", ("1", {}), ("16", {"waiting": 16})),
    "payments": Assumption("Themis' payments, yes", ("none", {"payments": False}), ("yes", {})),
    "filter": Assumption("Themis' f, 0.8", ("0", {"fairness": 0.0}), ("1", {"fairness": 1.0})),
}
KEYS = tuple(ASSUMPTIONS)


@dataclass(frozen=True)
class Headline:
    """A figure that the paper prints or says in words.

    Parameters
    ----------
    claim, unit : str
        As `Sensitivity` has them.
    paper : float
        The paper's.
    of : callable
        Table of the points of all draws -> ours.
    points : sequence of Point
        What is simulated in a draw; their seed is set to the draw's.
    """

    claim: str
    unit: str
    paper: float
    of: Callable[[Frame], float]
    points: Sequence[Point]

    def value(self, seeds: Sequence[int], moved: Mapping[str, Any], progress: Progress) -> float:
        """Our figure where an assumption is moved."""
        return self.of(frame_of([replace(p, seed=s, **moved) for s in seeds for p in self.points], progress))


def ratios(frame: Frame, column: str) -> Mapping[str, float]:
    """Each other policy's figure over Themis', the median of draws."""
    return {p: float(np.median(v)) for p, v in over_themis(frame, column).items()}


def best_other(column: str) -> Callable[[Frame], float]:
    """The best other policy's figure over Themis'."""
    return lambda frame: min(ratios(frame, column).values())


def worst_other(column: str) -> Callable[[Frame], float]:
    """The worst other policy's figure over Themis'."""
    return lambda frame: max(ratios(frame, column).values())


def of_policy(policy: str, column: str) -> Callable[[Frame], float]:
    """One policy's figure over Themis'."""
    return lambda frame: ratios(frame, column)[policy]


def all_policies(point: Point) -> tuple[Point, ...]:
    """The same under every policy."""
    return tuple(replace(point, policy=p) for p in POLICIES)


def sensitivities(
    headlines: Sequence[Headline], seeds: Sequence[int], progress: Progress, keys: Sequence[str] = KEYS
) -> tuple[Sensitivity, ...]:
    """Each headline beside assumptions, by default all."""
    found: list[Sensitivity] = []
    for headline in headlines:
        ours = headline.value(seeds, {}, progress)
        ends = {key: [headline.value(seeds, fields, progress) for _, fields in (a.low, a.high)] for key, a in _of(keys)}
        swings = tuple(Swing(a.text, a.low[0], a.high[0], *ends[key]) for key, a in _of(keys))
        found.append(
            Sensitivity(
                headline.claim, headline.paper, ours, headline.unit, swings, needed(headline.paper, ours, swings)
            )
        )
    return tuple(found)


def _of(keys: Sequence[str]) -> tuple[tuple[str, Assumption], ...]:
    return tuple((key, ASSUMPTIONS[key]) for key in keys)


def needed(paper: float, ours: float, swings: Sequence[Swing]) -> str:
    """Which of the values tried reach the paper's figure, from our side of it."""
    reached = [
        f"{s.assumption.split(',')[0]} between {s.assumption.split(', ')[1]} and {end}"
        for s in swings
        for end, value in ((s.low, s.at_low), (s.high, s.at_high))
        if (value - paper) * (ours - paper) <= 0
    ]
    return "; ".join(reached) if reached else "none of the values tried, moved alone, reaches the paper's figure"
