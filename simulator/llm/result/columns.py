"""`LLMResult`: what a simulation of LLM serving gives, columns per request, and the metrics on them."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ...metrics import Estimate, Tail, goodput, mean_interval, tail
from ...metrics import percentile as value_at
from ...summary import Summary
from ...timeline import Timeline
from ..workload.requests import LLMTrace
from .interval_math import Interval, check_percentile
from .intervals import interval, intervals
from .iterations import Iterations, TokenRuns, weighted_percentile
from .limited import Limited
from .views import memory_saving, over_time, plot, summary, timeline, to_frame

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..fleet.report import FleetReport

__all__ = ["LLMResult"]

Column = npt.NDArray[np.float64]
IntColumn = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

METRICS = ("ttft", "tpot", "e2e", "normalized_latency", "queue")  # latencies of single requests


@dataclass(frozen=True, eq=False, repr=False)
class LLMResult(Shown):
    """Outcome of every request, in the rows of the workload; times in seconds, NaN where there is none.

    A request of n sequences counts as one, with n tokens at a time. Metrics count requests that finished, and of those
    the ones in `counted`.

    Parameters
    ----------
    trace : LLMTrace
        The requests.
    arrival, scheduled, first_token, finish : ndarray of float64, shape (n,)
        When each request arrived (in a closed loop: was sent), first ran, and got its first and its last token.
    generated : ndarray of int64, shape (n,)
        Tokens that each of its sequences generated.
    preemptions, cached_tokens : ndarray of int64, shape (n,)
        How often each request was preempted; prompt tokens that the prefix cache held when it was admitted.
    engine : ndarray of int64, shape (n,)
        Engine that served each request; -1 if none did.
    ignored : ndarray of bool, shape (n,)
        Requests that the engine refused, or gave up.
    iterations : Iterations
        Every iteration of the engines.
    runs : TokenRuns
        Which iterations gave which request tokens.
    policy, made_by : str
        The scheduling policy, and the simulation engine that computed this result.
    fleet : FleetReport, optional
        Transfers, failures, retries and engine-seconds, of simulations with pools, faults or autoscaling.
    counted : ndarray of bool, optional
        Requests that metrics count (see `trim`); by default all.
    ttft_limit_s, tpot_limit_s : float
        Latency limits by which `attainment` and `goodput` judge a request (see `under`); with infinity it only has to
        finish.
    """

    trace: LLMTrace
    arrival: Column
    scheduled: Column
    first_token: Column
    finish: Column
    generated: IntColumn
    preemptions: IntColumn
    cached_tokens: IntColumn
    engine: IntColumn
    ignored: Mask
    iterations: Iterations
    runs: TokenRuns
    policy: str = ""
    made_by: str = "reference"
    fleet: FleetReport | None = None
    counted: Mask | None = None
    ttft_limit_s: float = float("inf")
    tpot_limit_s: float = float("inf")

    def __len__(self) -> int:
        return len(self.finish)

    def _headline(self) -> str:
        done = int((~np.isnan(self.finish)).sum())
        return (
            f"{done} of {len(self)} requests finished, {self.throughput:.4g} tokens/s, median TTFT "
            f"{self.ttft(50):.4g} s, TPOT {self.tpot(50):.4g} s"
        )

    @cached_property
    def finished(self) -> Mask:
        """Requests that finished, of those that metrics count, shape (n,)."""
        done = ~np.isnan(self.finish)
        return done if self.counted is None else done & self.counted

    @property
    def unfinished(self) -> Mask:
        """Requests that were neither finished nor ignored, shape (n,): the simulation was stopped before."""
        return np.isnan(self.finish) & ~self.ignored

    @property
    def sequences(self) -> IntColumn:
        """Sequences of each request, shape (n,)."""
        return np.ones(len(self), dtype=np.int64) if self.trace.best_of is None else self.trace.best_of

    def trim(self, first: int = 0, last: int = 0) -> LLMResult:
        """The same result with metrics that leave out the first and last requests to arrive: warm-up and drain.

        Raises
        ------
        InputError
            On a negative number, or if none would be left.
        """
        if first < 0 or last < 0 or first + last >= len(self):
            raise InputError(f"trim: {first} + {last} requests leave none of {len(self)}; expected fewer, each >= 0")
        order = np.argsort(self.arrival, kind="stable")
        counted = np.zeros(len(self), dtype=bool)
        counted[order[first : len(self) - last]] = True
        return replace(self, counted=counted)

    def values(self, metric: str) -> Column:
        """One latency for each finished request that has it, seconds, in order of rows.

        Parameters
        ----------
        metric : {"ttft", "tpot", "e2e", "normalized_latency", "queue"}
            Arrival to first token; time per further token (a request of one token has none); arrival to finish; that
            over the tokens of a sequence (vLLM §5.6); arrival to the first iteration.

        Raises
        ------
        InputError
            On another name.
        """
        if metric not in METRICS:
            raise InputError(f"metric: unknown metric {metric!r}; expected one of {', '.join(METRICS)}")
        all_of_them = self.latencies[metric]
        return all_of_them[self.finished & ~np.isnan(all_of_them)]

    @cached_property
    def latencies(self) -> dict[str, Column]:
        """Every latency of every request by name, shape (n,), seconds; NaN where there is none."""
        e2e = self.finish - self.arrival
        with np.errstate(divide="ignore", invalid="ignore"):
            per_token = np.where(self.generated > 0, e2e / self.generated, np.nan)
            further = np.where(self.generated > 1, (self.finish - self.first_token) / (self.generated - 1), np.nan)
        return {
            "ttft": self.first_token - self.arrival,
            "tpot": further,
            "e2e": e2e,
            "normalized_latency": per_token,
            "queue": self.scheduled - self.arrival,
        }

    def ttft(self, percentile: float) -> float:
        """A percentile (0 … 100) of the time to first token, seconds; NaN if no request finished."""
        return self._percentile("ttft", percentile)

    def tpot(self, percentile: float) -> float:
        """A percentile of the time per output token after the first, seconds; NaN if no request has a second."""
        return self._percentile("tpot", percentile)

    def e2e(self, percentile: float) -> float:
        """A percentile of the latency from arrival to finish, seconds."""
        return self._percentile("e2e", percentile)

    def itl(self, percentile: float) -> float:
        """A percentile of the times between a request's tokens, all requests together, seconds; NaN if there is none.

        Where requests of several sequences get several tokens at a time, this counts once.
        """
        check_percentile(percentile)
        return weighted_percentile(*self._gaps, percentile)

    @cached_property
    def _gaps(self) -> tuple[Column, IntColumn]:
        return self.runs.gaps(self.iterations.end, self.finished)

    def _percentile(self, metric: str, percentile: float) -> float:
        check_percentile(percentile)
        return value_at(self.values(metric), percentile)

    def tail(self, metric: str, percentile: float = 99.0) -> Tail:
        """A percentile for a report: refused where too few requests finished (99th: 10,000)."""
        return tail(self.values(metric), percentile)

    @property
    def normalized_latency(self) -> float:
        """Mean over requests of latency / output tokens, seconds per token (vLLM §5.6); NaN if none finished."""
        values = self.values("normalized_latency")
        return float(values.mean()) if len(values) else float("nan")

    def estimate(self, metric: str, *, batches: int = 20, confidence: float = 0.95) -> Estimate:  # see BATCHES
        """Mean of a latency with an interval from batch means: requests in order, cut in batches that are near
        independent where a batch is long against a busy period.

        Raises
        ------
        InputError
            On an unknown metric, or fewer requests than batches.
        """
        values = self.values(metric)
        if batches < 2 or len(values) < batches:
            raise InputError(f"estimate: {len(values)} requests do not make {batches} batches; expected 2 or more")
        return mean_interval([part.mean() for part in np.array_split(values, batches)], confidence)

    @property
    def span(self) -> tuple[float, float]:
        """First arrival and last finish of the requests that are counted, seconds; NaN if none finished."""
        if not self.finished.any():
            return float("nan"), float("nan")
        return float(self.arrival[self.finished].min()), float(self.finish[self.finished].max())

    @property
    def throughput(self) -> float:
        """Generated tokens of finished requests per second of `span`, those of all sequences."""
        return self._per_second((self.generated * self.sequences)[self.finished].sum())

    @property
    def request_throughput(self) -> float:
        """Finished requests per second of `span`."""
        return self._per_second(self.finished.sum())

    def under(self, *, ttft: float = float("inf"), tpot: float = float("inf")) -> LLMResult:
        """The same result, judged by other limits of TTFT and TPOT, seconds.

        Raises
        ------
        InputError
            On a limit that is not above 0.
        """
        _check_limits(ttft, tpot)
        return replace(self, ttft_limit_s=ttft, tpot_limit_s=tpot)

    @property
    def goodput(self) -> Limited:
        """Requests that meet both limits, per second of the time over which the counted ones arrived.

        The limits are the result's own; ``result.goodput(ttft=…, tpot=…)`` asks with others (seconds).
        See `simulator.metrics.goodput`: what is generated after the last arrival takes no part. A request without a
        second token is judged by its first; without limits, every request that finished is good.
        """
        return Limited.of(self._goodput, self.ttft_limit_s, self.tpot_limit_s)

    def _goodput(self, ttft: float, tpot: float) -> float:
        return goodput(float(self.good(ttft, tpot).sum()), *self.arrival_span, self.span[1])

    @property
    def arrival_span(self) -> tuple[float, float]:
        """First and last arrival of the counted requests, seconds; in a closed loop, of those that were sent."""
        times = self.arrival if self.counted is None else self.arrival[self.counted]
        times = times[np.isfinite(times)]
        return (float(times.min()), float(times.max())) if len(times) else (float("nan"), float("nan"))

    @property
    def attainment(self) -> Limited:
        """Share of the counted requests, ignored ones included, that finished within both limits.

        The limits are the result's own; ``result.attainment(ttft=…, tpot=…)`` asks with others (seconds).
        """
        return Limited.of(self._attainment, self.ttft_limit_s, self.tpot_limit_s)

    def _attainment(self, ttft: float, tpot: float) -> float:
        asked = len(self) if self.counted is None else int(self.counted.sum())
        return float(self.good(ttft, tpot).sum() / asked)

    def good(self, ttft: float, tpot: float) -> Mask:
        """Finished requests within both limits (seconds), shape (n,)."""
        _check_limits(ttft, tpot)
        further = np.nan_to_num(self.latencies["tpot"], nan=0.0)
        return self.finished & (self.latencies["ttft"] <= ttft) & (further <= tpot)

    def _per_second(self, amount: Any) -> float:
        low, high = self.span
        return float(amount / (high - low)) if high > low else float("nan")

    @property
    def prefix_hit_rate(self) -> float:
        """Share of the prompt tokens of admitted requests that the prefix cache held."""
        admitted = ~np.isnan(self.scheduled)
        asked = int(self.trace.prompt_tokens[admitted].sum())
        return float(self.cached_tokens[admitted].sum() / asked) if asked else float("nan")

    @property
    def mean_batch(self) -> float:
        """Requests that run at once, averaged over the time in which an engine runs any (vLLM Fig. 5.13)."""
        length = self.iterations.end - self.iterations.start
        total = float(length.sum())
        return float((self.iterations.running * length).sum() / total) if total > 0 else float("nan")

    @property
    def memory_saving(self) -> float:
        """Share of the blocks that sharing saves (vLLM Fig. 5.15); see `views.memory_saving`."""
        return memory_saving(self.iterations)

    def over_time(self, window_s: float) -> pd.DataFrame:
        """State of all engines together in windows of `window_s` seconds; see `views.over_time`."""
        return over_time(self.iterations, window_s)

    def token_times(self, row: int) -> Column:
        """When each token of a request was there, seconds."""
        return self.iterations.end[self.runs.of(row).tokens()]

    def to_frame(self) -> pd.DataFrame:
        """One row per request: what was asked, times, latencies, and how it fared."""
        return to_frame(self)

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        return summary(self)

    def plot(self) -> Figure:
        """Latencies, and what ran and waited over time, as a matplotlib figure."""
        return plot(self)

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()

    def interval(
        self, metric: str, percentile: float | None = None, *, confidence: float = 0.9, **more: Any
    ) -> Interval:
        """An interval around a figure; ``kind="prediction"`` for what another run would show: `intervals.interval`."""
        return interval(self, metric, percentile, confidence=confidence, **more)

    def intervals(self, *, confidence: float = 0.9, kind: str = "confidence") -> dict[str, Interval]:
        """Intervals of the figures of `summary` that have one."""
        return intervals(self, confidence=confidence, kind=kind)

    def timeline(self) -> Timeline:
        """Every iteration as a span, one lane per engine; see `views.timeline`."""
        return timeline(self.iterations)


def _check_limits(ttft: float, tpot: float) -> None:
    if not (ttft > 0 and tpot > 0):
        raise InputError(f"goodput: expected limits > 0 seconds (got ttft {ttft}, tpot {tpot})")
