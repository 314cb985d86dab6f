"""Claims of a paper, and the rules they are judged by: a tolerance that is written down before our figure is seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..errors import InputError
from ..reprs import Shown

__all__ = ["Claim", "Expectation", "Rule", "Verdict", "at_least", "at_most", "between", "within"]

Verdict = Literal["holds", "partly", "does not hold"]


@dataclass(frozen=True, repr=False)
class Rule(Shown):
    """When a claim holds.

    Parameters
    ----------
    text : str
        The tolerance in words.
    judge : callable
        Our figure -> verdict. NaN never holds.
    """

    text: str
    judge: Callable[[float], Verdict]

    def __call__(self, ours: float) -> Verdict:
        return "does not hold" if math.isnan(ours) else self.judge(ours)


def between(low: float, high: float, *, partly: tuple[float, float] | None = None) -> Rule:
    """Holds in ``[low, high]``, partly in the wider interval `partly`.

    Raises
    ------
    InputError
        If `low` is above `high`, or `partly` does not contain the interval.
    """
    if not low <= high or (partly is not None and not (partly[0] <= low and high <= partly[1])):
        raise InputError(f"rule: expected partly[0] <= low <= high <= partly[1] (got {low}, {high}, {partly})")

    def judge(ours: float) -> Verdict:
        if low <= ours <= high:
            return "holds"
        return "partly" if partly is not None and partly[0] <= ours <= partly[1] else "does not hold"

    text = _interval(low, high)
    return Rule(text if partly is None else f"{text}; partly: {_interval(*partly)}", judge)


def within(paper: float, relative: float, *, partly: float | None = None) -> Rule:
    """Holds within `relative` of the paper's figure, partly within the relative tolerance `partly`."""
    if not (paper > 0 and relative > 0):
        raise InputError(f"rule: expected a positive figure and tolerance (got {paper}, {relative})")
    inner = between(
        paper * (1 - relative),
        paper * (1 + relative),
        partly=None if partly is None else (paper * (1 - partly), paper * (1 + partly)),
    )
    text = f"within {relative:.0%} of {paper:g}" + ("" if partly is None else f"; partly: within {partly:.0%}")
    return Rule(text, inner.judge)


def at_least(bound: float, *, partly: float | None = None) -> Rule:
    """Holds from `bound` upwards, partly from the lower bound `partly`."""
    return between(bound, math.inf, partly=None if partly is None else (partly, math.inf))


def at_most(bound: float, *, partly: float | None = None) -> Rule:
    """Holds up to `bound`, partly up to the higher bound `partly`."""
    return between(-math.inf, bound, partly=None if partly is None else (-math.inf, partly))


def _interval(low: float, high: float) -> str:
    if high == math.inf:
        return f"at least {low:g}"
    if low == -math.inf:
        return f"at most {high:g}"
    return f"exactly {low:g}" if f"{low:g}" == f"{high:g}" else f"{low:g} to {high:g}"


@dataclass(frozen=True, repr=False)
class Claim(Shown):
    """A claim with what we found.

    Parameters
    ----------
    text : str
        The claim, in our words.
    where : str
        Where the paper makes it.
    paper : str
        The paper's figure.
    ours : str
        Our figure.
    value : float
        Our figure as the rule judged it.
    rule : str
        The tolerance.
    verdict : str
        ``"holds"``, ``"partly"`` or ``"does not hold"``.
    why : str
        What we think the reason is, where it does not hold in full.
    """

    text: str
    where: str
    paper: str
    ours: str
    value: float
    rule: str
    verdict: Verdict
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """The claim as plain values; a figure that is not finite becomes None."""
        fields = asdict(self)
        fields["value"] = self.value if math.isfinite(self.value) else None
        return fields


@dataclass(frozen=True, repr=False)
class Expectation(Shown):
    """A claim before we looked: its text, the paper's figure and the rule.

    Parameters
    ----------
    text, where, paper
        As in `Claim`.
    rule : Rule
        The tolerance.
    form : str
        Format of our figure, such as ``"{:.2f} s"``.
    """

    text: str
    where: str
    paper: str
    rule: Rule
    form: str = "{:.3g}"

    def judge(self, ours: float, *, shown: str | None = None, why: str = "") -> Claim:
        """Hold our figure against the rule.

        Parameters
        ----------
        ours : float
            Our figure.
        shown : str, optional
            How to print it; by `form` if left out.
        why : str
            What we think the reason is if the claim does not hold in full; dropped if it does.
        """
        value = float(ours)
        verdict = self.rule(value)
        return Claim(
            text=self.text,
            where=self.where,
            paper=self.paper,
            ours=self.form.format(value) if shown is None else shown,
            value=value,
            rule=self.rule.text,
            verdict=verdict,
            why="" if verdict == "holds" else why,
        )
