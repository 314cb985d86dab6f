"""Claims of a paper, and the rules they are judged by: a tolerance that is written down before our figure is seen.

Rules have two sides. Past the side that favours the claim our figure is *beyond* the paper's: it has the effect, but
not its size. `at_least` and `at_most` are for texts that say "at least", "at most", "less", "never".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ..errors import InputError
from ..reprs import Shown

__all__ = [
    "KINDS",
    "VERDICTS",
    "Claim",
    "Expectation",
    "Kind",
    "Rule",
    "Side",
    "Verdict",
    "at_least",
    "at_most",
    "between",
    "tally",
    "up_to",
    "within",
]

Verdict = Literal["holds", "beyond", "partly", "does not hold", "needs a GPU"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

Kind = Literal["finding", "given", "identity", "calibrated"]
"""What a claim is: a finding of our models, which can fail; an input that the paper gives; arithmetic, true whatever
the models say; or a figure that was seen while something was chosen. Findings alone are counted."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Side = Literal["above", "below"]


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


def between(low: float, high: float, *, partly: tuple[float, float] | None = None, beyond: Side | None = None) -> Rule:
    """Holds in ``[low, high]``, partly in the wider interval `partly`; past the side `beyond` it is beyond the paper's.

    Raises
    ------
    InputError
        If `low` is above `high`, `partly` does not contain the interval, or no figure can lie past the side `beyond`.
    """
    if not low <= high or (partly is not None and not (partly[0] <= low and high <= partly[1])):
        raise InputError(f"rule: expected partly[0] <= low <= high <= partly[1] (got {low}, {high}, {partly})")
    if (beyond == "above" and high == math.inf) or (beyond == "below" and low == -math.inf):
        raise InputError(f"rule: beyond {beyond!r} needs a bound on that side (got {low}, {high})")

    def judge(ours: float) -> Verdict:
        if low <= ours <= high:
            return "holds"
        if beyond is not None and (ours > high if beyond == "above" else ours < low):
            return "beyond"
        return "partly" if partly is not None and partly[0] <= ours <= partly[1] else "does not hold"

    text = _interval(low, high)
    return Rule(_text(text, None if partly is None else _interval(*partly), beyond), judge)


def within(paper: float, relative: float, *, partly: float | None = None, beyond: Side | None = None) -> Rule:
    """Holds within `relative` of the paper's figure, partly within the relative tolerance `partly`.

    Parameters
    ----------
    paper : float
        The paper's figure, > 0.
    relative, partly : float
        Tolerances, > 0.
    beyond : "above" or "below", optional
        The side past which the effect is larger than claimed.

    Raises
    ------
    InputError
        If the figure or the tolerance is not positive.
    """
    if not (paper > 0 and relative > 0):
        raise InputError(f"rule: expected a positive figure and tolerance (got {paper}, {relative})")
    inner = between(
        paper * (1 - relative),
        paper * (1 + relative),
        partly=None if partly is None else (paper * (1 - partly), paper * (1 + partly)),
        beyond=beyond,
    )
    more = None if partly is None else f"within {partly:.0%}"
    return Rule(_text(f"within {relative:.0%} of {paper:g}", more, beyond), inner.judge)


def up_to(paper: float, relative: float, *, partly: float | None = None) -> Rule:
    """For "up to X": our maximum is judged, from both sides; more than the paper's is beyond it."""
    inner = within(paper, relative, partly=partly, beyond="above")
    return Rule(f"our maximum {inner.text}", inner.judge)


def at_least(bound: float, *, partly: float | None = None) -> Rule:
    """Holds from `bound` upwards, partly from the lower bound `partly`."""
    return between(bound, math.inf, partly=None if partly is None else (partly, math.inf))


def at_most(bound: float, *, partly: float | None = None) -> Rule:
    """Holds up to `bound`, partly up to the higher bound `partly`."""
    return between(-math.inf, bound, partly=None if partly is None else (-math.inf, partly))


def _text(holds: str, partly: str | None, beyond: Side | None) -> str:
    """A rule in words."""
    words = [holds]
    words += [] if partly is None else [f"partly: {partly}"]
    words += [] if beyond is None else [f"beyond: {beyond} it"]
    return "; ".join(words)


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
        One of `VERDICTS`.
    why : str
        What we think the reason is, where it does not hold in full; the command that answers it, where it needs a GPU.
    kind : str
        One of `KINDS`.
    timed : bool
        Whether our figure are seconds of this machine: another one, or a busy one, may give another verdict.
    """

    text: str
    where: str
    paper: str
    ours: str
    value: float
    rule: str
    verdict: Verdict
    why: str = ""
    kind: Kind = "finding"
    timed: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is counted: a finding that could be judged here."""
        return self.kind == "finding" and self.verdict != "needs a GPU"

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
    kind : str
        One of `KINDS`.
    timed : bool
        Whether our figure are seconds of this machine: another one, or a busy one, may give another verdict.
    """

    text: str
    where: str
    paper: str
    rule: Rule
    form: str = "{:.3g}"
    kind: Kind = "finding"
    timed: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"claim {self.text!r}: expected kind {', '.join(KINDS)} (got {self.kind!r})")

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
            kind=self.kind,
            timed=self.timed,
        )

    def needs_gpu(self, command: str) -> Claim:
        """The claim where no GPU is: not judged, with the one command that answers it there."""
        return Claim(
            self.text, self.where, self.paper, "–", math.nan, self.rule.text, "needs a GPU", command, self.kind
        )


def tally(counts: Mapping[Verdict, int], others: int) -> str:
    """Verdicts in words: how many findings hold, what the rest does; `others` are claims that are no findings."""
    gpu = counts.get("needs a GPU", 0)
    words = [f"{counts.get('holds', 0)} of {sum(counts.values()) - gpu} hold"]
    words += [f"{counts.get(v, 0)} {v}" for v in ("beyond", "partly") if counts.get(v, 0)]
    words += [f"{gpu} need{'s' * (gpu == 1)} a GPU"] * bool(gpu)
    words += [f"{others} not counted"] * bool(others)
    return ", ".join(words)
