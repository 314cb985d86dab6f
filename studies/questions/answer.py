"""`Answer`: what a question of a study came to, for one planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...reprs import Shown
from ...simulator.metrics import Estimate
from ..point import Point

__all__ = ["Answer", "Effect", "Probe", "headline"]


@dataclass(frozen=True, repr=False)
class Probe(Shown):
    """One value that was tried, over all replications.

    Parameters
    ----------
    value : float
        The quantity.
    estimate : Estimate
        The metric there: mean over replications and its t-interval. A replication without a plan attains 0; another
        metric than attainment is infinite then, on the bad side.
    points : tuple of Point
        The points evaluated, one per replication.
    infeasible : int
        Replications in which no plan exists.
    notes : tuple of str
        What the points' outcomes say: an unstable system, a refused percentile.
    """

    value: float
    estimate: Estimate
    points: tuple[Point, ...]
    infeasible: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Effect(Shown):
    """Attainment after one factor was changed: a row of the table of "what breaks first".

    Parameters
    ----------
    factor : str
        What was changed.
    change : float
        Relative to the base case: 0.1 is 10 % more.
    value : float
        The factor after the change; whole quantities are rounded to it.
    estimate : Estimate
        The metric there.
    """

    factor: str
    change: float
    value: float
    estimate: Estimate


@dataclass(frozen=True, repr=False)
class Answer(Shown):
    """The answer to a question, for one planner.

    Parameters
    ----------
    question : str
        What was asked, in words.
    planner : str
        Label of the planner, or the plan file.
    quantity : str
        Path or name of what was searched.
    value : float or None
        The extreme value whose mean attains the target; None if even the easy end of the range misses it.
    low, high : float or None
        Confidence interval of the value: all values at which the interval of the metric contains the target. None
        where there is none (one replication) or where it reaches beyond the range.
    target : float
        Attainment (or the bound of the metric) asked for.
    estimate : Estimate or None
        The metric at the answer; at the easy end if there is no answer.
    probes : tuple of Probe
        All that was tried, in order of the value.
    monotone : bool
        Whether no probe contradicts another: misses the target although a harder one attains it.
    sentence : str
        The answer in one sentence.
    point : Point or None
        A point at the answer, to draw.
    short : str
        The answer without what was asked, such as ``needs 9 devices (8 … 10)``.
    part : bool
        Whether this belongs to another answer: a device type of the cheapest cluster, a factor of what breaks first.
    table : tuple of Effect
        What changes of each factor do; of "what breaks first".
    change : float or None
        Of a factor of "what breaks first": the smallest change that was tried and misses the target, relative to the
        base case; None if none does.
    error : str
        Why there is no answer, where a point failed or does not know the metric; one line.
    """

    question: str
    planner: str
    quantity: str
    value: float | None
    low: float | None
    high: float | None
    target: float
    estimate: Estimate | None
    probes: tuple[Probe, ...]
    monotone: bool
    sentence: str
    point: Point | None
    short: str = ""
    part: bool = False
    table: tuple[Effect, ...] = ()
    error: str = ""
    change: float | None = None


def headline(answers: Sequence[Answer]) -> str:
    """All answers in as many sentences as there are questions; the parts of an answer are left out.

    The first planner's answer is said in full, the others' shortly after it.
    """
    said: dict[str, list[Answer]] = {}
    for answer in answers:
        if not answer.part:
            said.setdefault(answer.question, []).append(answer)
    sentences: list[str] = []
    for first, *others in said.values():
        rest = [f"{a.planner} {a.short}" if a.short else a.sentence.removesuffix(".") for a in others]
        sentences.append("; ".join([first.sentence.removesuffix("."), *rest]) + ".")
    return " ".join(sentences)
