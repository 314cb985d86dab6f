"""What users were promised: limits for every request, and percentiles, of all requests or of a class of them.

A limit without a percentile is kept or missed request by request. A percentile, like 90 % of the first tokens within a
second, is kept or missed by the requests of its class together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ....errors import InputError

if TYPE_CHECKING:
    from .columns import LLMResult

__all__ = ["Judgement", "Objective", "Promises", "Verdict", "objectives_of"]

Mask = npt.NDArray[np.bool_]

METRICS = ("ttft", "tpot", "itl", "e2e")
SPELLINGS = {"e2el": "e2e"}
"""What vLLM's benchmark calls a metric -> what it is called here."""
FORM = re.compile(
    r"\s*(?:(?P<kind>[^:<=]+?)\s*:)?\s*(?:p(?P<percentile>[0-9.]+)\s+)?(?P<metric>[A-Za-z0-9]+)\s*(?:<=|≤|<)\s*"
    r"(?P<limit>[0-9.eE+-]+)\s*(?P<unit>ms|s)\s*"
)
EXAMPLES = "'p90 ttft <= 1 s', 'p99 itl <= 50 ms', 'chat: e2e <= 20 s'"
SURE = 1e-12
"""A share that should be 0.9 may miss it by a rounding."""


@dataclass(frozen=True, slots=True)
class Objective:
    """One promise.

    Parameters
    ----------
    metric : {"ttft", "tpot", "itl", "e2e"}
        Time to first token, time per further token, time between two tokens, time from arrival to the last token.
    limit_s : float
        Seconds, > 0.
    percentile : float, optional
        Above 0 and below 100: so many percent of the requests (of ``itl``: of the times between tokens) are within the
        limit. Without it each request is judged by the limit; a request has many ``itl``, so that these need one.
    kind : str
        The class of requests that it is for; empty: all.

    Raises
    ------
    InputError
        On an unknown metric, or a value out of its range.
    """

    metric: str
    limit_s: float
    percentile: float | None = None
    kind: str = ""

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise InputError(f"slo: unknown metric {self.metric!r}; expected one of {', '.join(METRICS)}")
        if not (math.isfinite(self.limit_s) and self.limit_s > 0):
            raise InputError(f"slo: {self.metric}: expected a limit > 0 seconds (got {self.limit_s})")
        if self.percentile is not None and not 0 < self.percentile < 100:
            raise InputError(f"slo: {self.metric}: expected a percentile above 0 and below 100 (got {self.percentile})")
        if self.percentile is None and self.metric == "itl":
            raise InputError("slo: itl: a request has many; say a percentile, as in 'p99 itl <= 50 ms'")

    @classmethod
    def parse(cls, text: str) -> Objective:
        """The objective that a text says: ``[CLASS:] [pNN] METRIC <= SECONDS s`` (or ``ms``).

        Raises
        ------
        InputError
            On text that says none.
        """
        found = FORM.fullmatch(text)
        try:
            if found is None:
                raise ValueError(text)
            limit = float(found["limit"]) * (1e-3 if found["unit"] == "ms" else 1.0)
            percentile = None if found["percentile"] is None else float(found["percentile"])
        except ValueError:
            raise InputError(f"slo: expected something like {EXAMPLES} (got {text!r})") from None
        metric = found["metric"].lower()
        return cls(SPELLINGS.get(metric, metric), limit, percentile, (found["kind"] or "").strip())

    def __str__(self) -> str:
        said = "" if self.percentile is None else f"p{self.percentile:g} "
        limit = f"{1e3 * self.limit_s:.6g} ms" if self.limit_s < 0.1 else f"{self.limit_s:.6g} s"
        return f"{f'{self.kind}: ' if self.kind else ''}{said}{self.metric} <= {limit}"


def objectives_of(texts: Iterable[str]) -> tuple[Objective, ...]:
    """The objectives that several texts say.

    Raises
    ------
    InputError
        On text that says none, or the same promise twice with different limits.
    """
    found = tuple(map(Objective.parse, texts))
    said: set[tuple[str, float | None, str]] = set()
    for each in found:
        what = each.metric, each.percentile, each.kind
        if what in said:
            raise InputError(f"slo: {str(each).split(' <=')[0]} is limited twice")
        said.add(what)
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an objective at a percentile.

    Parameters
    ----------
    objective : Objective
        Which.
    value_s : float
        The percentile, seconds: the least time within which so many are; infinite where too many did not finish, NaN
        where no request is of its class.
    share : float
        Share within the limit; requests that did not finish are not.
    """

    objective: Objective
    value_s: float
    share: float

    @property
    def met(self) -> bool:
        """Whether it was kept; kept where no request is of its class."""
        return math.isnan(self.share) or self.share >= (self.objective.percentile or 0.0) / 100 - SURE

    @property
    def kept(self) -> float:
        """How much of it was kept: 1 where it was, else the share within the limit over the share that was promised."""
        return 1.0 if self.met else self.share / ((self.objective.percentile or 100.0) / 100)

    def __str__(self) -> str:
        o = self.objective
        if math.isnan(self.share):
            return f"{o}: no such request"
        value = f"{1e3 * self.value_s:.4g} ms" if math.isfinite(self.value_s) else "not finished"
        return f"{o}: {value}, {self.share:.2%} within: {'met' if self.met else 'MISSED'}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a result fared by what was promised.

    Parameters
    ----------
    attainment : float
        Share of the counted requests that finished within the limits for single requests; those of a class that misses
        a percentile count only as far as the percentile was kept (`Verdict.kept`, the least of its class).
    asked : int
        Counted requests.
    verdicts : tuple of Verdict
        Of every percentile.
    """

    attainment: float
    asked: int
    verdicts: tuple[Verdict, ...] = ()

    @property
    def good(self) -> float:
        """Requests that attained what was promised."""
        return self.attainment * self.asked

    @property
    def met(self) -> bool:
        """Whether every percentile was kept."""
        return all(v.met for v in self.verdicts)


@dataclass(frozen=True, slots=True)
class Promises:
    """Everything that the users of a model were promised.

    Parameters
    ----------
    ttft_s, tpot_s : float
        Limits of every request's TTFT and TPOT, seconds; infinite for none.
    objectives : tuple of Objective
        Further ones: of classes, of other metrics, and percentiles.
    """

    ttft_s: float = math.inf
    tpot_s: float = math.inf
    objectives: tuple[Objective, ...] = field(default=())

    @property
    def some(self) -> bool:
        """Whether anything was promised."""
        return math.isfinite(self.ttft_s) or math.isfinite(self.tpot_s) or bool(self.objectives)

    def scaled(self, factor: float) -> Promises:
        """The same with every limit multiplied."""
        return Promises(
            self.ttft_s * factor, self.tpot_s * factor,
            tuple(replace(o, limit_s=o.limit_s * factor) for o in self.objectives),
        )  # fmt: skip

    def good(self, result: LLMResult) -> Mask:
        """Finished requests within the limits for single requests, shape (n,)."""
        found = result.good(self.ttft_s, self.tpot_s)
        for o in self.objectives:
            if o.percentile is None:
                found &= _within(result, o) | ~result.trace.of_class(o.kind)
        return found

    def judge(self, result: LLMResult) -> Judgement:
        """How a result fared."""
        counted = np.ones(len(result), dtype=np.bool_) if result.counted is None else result.counted
        verdicts = tuple(_verdict(result, o, counted) for o in self.objectives if o.percentile is not None)
        worth = np.ones(len(result))
        for v in verdicts:
            mine = result.trace.of_class(v.objective.kind)
            worth[mine] = np.minimum(worth[mine], v.kept)
        asked = int(counted.sum())
        return Judgement(float((worth * (self.good(result) & counted)).sum() / asked), asked, verdicts)

    def __str__(self) -> str:
        plain = (("ttft", self.ttft_s), ("tpot", self.tpot_s))
        every = [str(Objective(name, limit)) for name, limit in plain if math.isfinite(limit)]
        return ", ".join([*every, *map(str, self.objectives)])


def _within(result: LLMResult, o: Objective) -> Mask:
    """Requests within a limit; one without a second token has no TPOT that could miss it."""
    times = result.latencies[o.metric]
    inside: Mask = (times <= o.limit_s) | (np.isnan(times) if o.metric == "tpot" else False)
    return inside & result.finished


def _verdict(result: LLMResult, o: Objective, counted: Mask) -> Verdict:
    mine = result.trace.of_class(o.kind) & counted
    asked, done = int(mine.sum()), mine & result.finished
    if not asked:
        return Verdict(o, math.nan, math.nan)
    finished = float(done.sum()) / asked
    if o.metric == "itl":
        values, often = result.runs.gaps(result.iterations.end, done)
    else:
        values = result.latencies[o.metric][done]
        values = np.where(np.isnan(values), 0.0, values)  # no second token: nothing to wait for
        often = np.ones(len(values), dtype=np.int64)
    whole = int(often.sum())
    if not whole:  # nothing to wait for, or nothing finished
        return Verdict(o, 0.0 if finished == 1 else math.inf, finished)
    share = float(often[values <= o.limit_s].sum()) / whole * finished
    wanted = (o.percentile or 0.0) / 100 / finished
    if wanted > 1 + SURE:
        return Verdict(o, math.inf, share)
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(often[order]) / whole
    place = min(int(np.searchsorted(upto, wanted - SURE)), len(order) - 1)
    return Verdict(o, float(values[order[place]]), share)
