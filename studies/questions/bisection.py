"""Searches of a study: several bisections on common random numbers, followed side by side.

A probe is one value under all replications. Three bisections of one search share all probes: where the mean attains
the bound, where the whole interval of the mean does, and where any of it does. The first is the answer; the other two
are the ends of its confidence interval, the set of values at which the metric's interval contains the bound (a test of
"the metric is the bound here", inverted). All searches of a study ask for their next values together, so that one batch
holds the probes of all planners and questions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ...errors import RunError
from ...planners.bisection import Bisection
from ...simulator.metrics import Estimate, mean_interval
from ...wording import nearest
from ...worlds.outcome import Outcome
from ..point import Point
from .answer import Probe
from .kinds import QuestionBase
from .quantity import Quantity

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["Rule", "Search", "drive"]

SLACK = 1e-12
"""Relative rounding of a mean that may not decide whether it attains."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold: a metric on the good side of a bound.

    Parameters
    ----------
    metric : str
        Name of the metric.
    bound : float
        The bound, which itself is good.
    at_most : bool
        Whether less is good.
    """

    metric: str
    bound: float
    at_most: bool = False

    @classmethod
    def of(cls, question: QuestionBase) -> Rule:
        """A question's."""
        if question.at_most is not None:
            return cls(question.metric, question.at_most, True)
        return cls(question.metric, question.target if question.at_least is None else question.at_least)

    @property
    def nothing(self) -> float:
        """The metric of a case that has no plan."""
        return math.inf if self.at_most else 0.0 if self.metric == "attainment" else -math.inf

    def holds(self, value: float) -> bool:
        """Whether a value is on the good side."""
        slack = SLACK * max(abs(self.bound), abs(value)) if math.isfinite(value) else 0.0
        return value <= self.bound + slack if self.at_most else value >= self.bound - slack

    def surely(self, estimate: Estimate) -> bool:
        """Whether the whole interval is."""
        return self.holds(estimate.high if self.at_most else estimate.low)

    def possibly(self, estimate: Estimate) -> bool:
        """Whether any of the interval is."""
        return self.holds(estimate.low if self.at_most else estimate.high)


@dataclass
class Search:
    """The search of one quantity for one planner: what is known, and what to ask next.

    Parameters
    ----------
    planner : str
        Label, as the study has it.
    quantity : Quantity
        What is searched.
    rule : Rule
        What must hold.
    replications : int
        Of every probe.
    confidence : float
        Coverage of intervals.
    first : tuple of float
        Values to try beside the ends, before all others.
    """

    planner: str
    quantity: Quantity
    rule: Rule
    replications: int
    confidence: float
    first: tuple[float, ...] = ()
    probes: dict[float, Probe] = field(default_factory=dict[float, Probe])
    error: str = ""

    @cached_property
    def bisection(self) -> Bisection:
        """The rule of the search."""
        q = self.quantity
        return Bisection(q.low, q.high, q.hard, q.tolerance, q.whole, q.name, q.step)

    def known(self) -> dict[float, bool]:
        """Value -> whether the mean attains, for all values in the range."""
        return self._where(lambda e: self.rule.holds(e.mean))

    def surely(self) -> dict[float, bool]:
        """Value -> whether all of the interval attains."""
        return self._where(self.rule.surely)

    def possibly(self) -> dict[float, bool]:
        """Value -> whether any of the interval attains."""
        return self._where(self.rule.possibly)

    def _where(self, test: Callable[[Estimate], bool]) -> dict[float, bool]:
        q = self.quantity
        return {value: test(probe.estimate) for value, probe in self.probes.items() if q.low <= value <= q.high}

    def wanted(self) -> tuple[float, ...]:
        """Values to try next, each once; none when the search is over."""
        if self.error:
            return ()
        if not self.probes:
            return tuple(dict.fromkeys((self.bisection.easy_end, self.bisection.hard_end, *self.first)))
        ways = [self.known()] if self.replications == 1 else [self.known(), self.surely(), self.possibly()]
        found = [self.bisection.next(way) for way in ways]
        return tuple(dict.fromkeys(value for value in found if value is not None))

    def tell(self, value: float, points: Sequence[Point], outcomes: Sequence[Outcome]) -> None:
        """Take a probe in. A point that failed, or that lacks the metric, ends the search with an error."""
        metrics: list[float] = []
        for point, outcome in zip(points, outcomes, strict=True):
            where = f"{self.quantity.say(value)}, replication {point.replication}"
            if outcome.status == "failed":
                self.error = self.error or f"{where}: {outcome.error}"
            elif outcome.status == "infeasible":
                metrics.append(self.rule.nothing)
            elif self.rule.metric in outcome.metrics:
                metrics.append(outcome.metrics[self.rule.metric])
            else:
                self.error = self.error or f"{where}: {_missing(self.rule.metric, outcome)}"
        if len(metrics) < len(points):
            return
        notes = tuple(dict.fromkeys(note for outcome in outcomes for note in outcome.notes))
        reasons = tuple(dict.fromkeys(outcome.error for outcome in outcomes if outcome.status == "infeasible"))
        infeasible = sum(outcome.status == "infeasible" for outcome in outcomes)
        self.probes[value] = Probe(value, self._estimate(metrics), tuple(points), infeasible, (*reasons, *notes))

    def _estimate(self, metrics: Sequence[float]) -> Estimate:
        if all(math.isfinite(m) for m in metrics):
            return mean_interval(metrics, self.confidence)
        return Estimate(self.rule.nothing, 0.0, len(metrics), self.confidence)


def _missing(metric: str, outcome: Outcome) -> str:
    """Why an outcome has no such metric, and how to mend it."""
    refused = [note for note in outcome.notes if note.startswith(f"{metric} refused")]
    if refused:
        return f"{refused[0]}; lengthen the traffic (workload.duration, or a longer trace)"
    near = nearest(metric, outcome.metrics)
    hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(outcome.metrics))}"
    return f"there is no metric {metric!r}; {hint}"


def drive(session: Session, searches: Iterable[Search]) -> None:
    """Follow all searches to their ends; what each wants next is evaluated in one batch.

    Which points are asked for, and in which order, depends on outcomes alone, so that an interrupted study asks again
    for what its store holds.
    """
    waiting = list(searches)
    while waiting:
        asked = [
            (search, value, [_ask(session, search, value, r) for r in range(search.replications)])
            for search in waiting
            for value in search.wanted()
        ]
        outcomes = _evaluate(session, {p.index: p for _, _, points in asked for p in points})
        for search, value, points in asked:
            search.tell(value, points, [outcomes[p.index] for p in points])
        waiting = [search for search in waiting if search.wanted()]


def _ask(session: Session, search: Search, value: float, replication: int) -> Point:
    point = session.ask(search.quantity.values(value), search.planner, replication)
    if point is None:
        raise RunError(f"{search.quantity.name}: the session has no point for {value}")
    return point


def _evaluate(session: Session, points: Mapping[int, Point]) -> dict[int, Outcome]:
    outcomes = {point.index: outcome for point, outcome in session.evaluate(points.values())}
    missing = sorted(set(points) - set(outcomes))
    if missing:
        raise RunError(f"the session gave no outcome for point {missing[0]}")
    return outcomes
