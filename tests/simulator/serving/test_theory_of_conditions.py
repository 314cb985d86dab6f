"""Drawn times and outages against queueing theory, within max(4 standard errors, 1 %) under fixed seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.profiles.spread import Spread, Variation, at
from meshwright.simulator import Group, Placement, simulate
from meshwright.simulator.metrics import Estimate, mean_interval
from meshwright.simulator.serving import Conditions, Outages, draw_times, queueing
from meshwright.traces import Trace

ONE = ParallelConfig(1, 1)
PROFILES = {"a": ModelProfile.from_stages("a", {ONE: {1: [1.0]}})}
PLACEMENT = Placement([Group(ONE, ["a"])])
REPLICATIONS, REQUESTS = 10, 100_000
# Quantiles at (k + 1/2) / n of a distribution with a long tail, cut at p99.75.
EXPONENTIAL = tuple(-np.log1p(-(np.arange(200) + 0.5) / 200))


def moments(visits: tuple[float, ...]) -> tuple[float, float]:
    """Mean and squared coefficient of variation of what is drawn: linear between the quantiles."""
    grid = (np.arange(400_000) + 0.5) / 400_000
    drawn = at(np.asarray(visits), grid)
    return float(drawn.mean()), float(drawn.var() / drawn.mean() ** 2)


def mean_latency(gaps: Callable[[np.random.Generator], np.ndarray], spread: Spread) -> Estimate:
    """Mean latency over replications; the first tenth of each is warm-up."""
    means = []
    for seed in range(REPLICATIONS):
        arrival = np.cumsum(gaps(np.random.default_rng(seed)))
        trace = Trace(arrival, np.zeros(REQUESTS, dtype=np.int32), ["a"])
        times = draw_times(Variation(spread), PLACEMENT, float(arrival[-1]), seed)
        result = simulate(PLACEMENT, trace, PROFILES, admission=False, conditions=Conditions(times))
        means.append(float(result.latencies[REQUESTS // 10 :].mean()))
    return mean_interval(means)


def poisson(rate: float) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.exponential(1 / rate, REQUESTS)


def tolerance(estimate: Estimate, expected: float, percent: float) -> float:
    return max(4 * estimate.half_width / 2.262, expected * percent / 100)  # t quantile of 9 degrees of freedom


@pytest.mark.parametrize("visits", [(0.5, 1.5), (0.8, 0.9, 1.0, 1.3), EXPONENTIAL], ids=["two", "few", "exponential"])
@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_pollaczek_khinchine_with_drawn_visits(visits, rate):
    mean, cv2 = moments(visits)
    found = mean_latency(poisson(rate), Spread(visits=visits))
    expected = float(queueing.mg1(rate, mean, cv2))
    assert abs(found.mean - expected) <= tolerance(found, expected, 1.0)


@pytest.mark.parametrize("cv2", [0.5, 4.0])
@pytest.mark.parametrize("rate", [0.6, 0.9])
def test_kingmans_bound_holds_and_is_near_where_the_load_is_high(cv2, rate):
    visits = (0.5, 0.8, 1.2, 1.5)
    mean, service_cv2 = moments(visits)
    found = mean_latency(lambda rng: rng.gamma(1 / cv2, cv2 / rate, REQUESTS), Spread(visits=visits))
    bound = float(queueing.kingman(rate, mean, cv2, service_cv2))
    slack = tolerance(found, bound, 0.0)
    assert found.mean <= bound + slack
    if rate == 0.9:
        # What the bound leaves out is at most the mean residual time to an arrival, E[I**2] / (2 E[I]) of idle times I.
        # Of a gamma distribution that is never more than its mean (cv2 <= 1), or than its scale, cv2 / rate.
        assert found.mean >= bound - max(1.0, cv2) / rate - slack


def test_slow_seconds_that_come_in_runs_cost_more_than_independent_ones():
    """The same factors for the same visits on average: only how they hang together differs. The bound is broken."""
    factors = (0.5, 0.8, 1.2, 1.5)
    mean, cv2 = moments(factors)
    apart = mean_latency(poisson(0.8), Spread(visits=factors))
    together = mean_latency(poisson(0.8), Spread(runs=factors, correlation_s=50.0))
    assert apart.high < float(queueing.kingman(0.8, mean, 1.0, cv2)) < together.low


@pytest.mark.parametrize(("mtbf", "mttr"), [(20.0, 5.0), (3.0, 1.0)])
@pytest.mark.parametrize("in_flight", ["lost", "retried"])
def test_a_server_that_fails_serves_loses_and_rejects_its_shares(mtbf, mttr, in_flight):
    """An SLO of exactly one's own latency admits only to an idle server. A second try finds nobody: rejected."""
    n, rate = 300_000, 0.7
    rng = np.random.default_rng(4)
    arrival = np.cumsum(rng.exponential(1 / rate, n))
    count = int(1.2 * arrival[-1] / (mtbf + mttr))
    up, away = rng.exponential(mtbf, count), rng.exponential(mttr, count)
    back = np.cumsum(up + away)
    outages = Outages(np.zeros(count, dtype=int), back - away, back, in_flight)
    assert back[-1] > arrival[-1]
    result = simulate(
        PLACEMENT, Trace(arrival, np.zeros(n, dtype=int), ["a"], 1.0), PROFILES, conditions=Conditions(outages=outages)
    )
    expected = queueing.failing_server(rate, 1.0, mtbf, mttr)
    assert sum(expected) == pytest.approx(1.0)
    interrupted = result.failed if in_flight == "lost" else (result.attempts > 0) & result.rejected
    assert (~result.rejected).mean() == pytest.approx(float(expected.served), rel=0.01)
    assert interrupted.mean() == pytest.approx(float(expected.lost), rel=0.03)
    assert (result.rejected & ~interrupted).mean() == pytest.approx(float(expected.rejected), rel=0.01)
    # Availability: the share of time in which it is there.
    assert 1 - outages.away_s(1, back[-1])[0] / back[-1] == pytest.approx(mtbf / (mtbf + mttr), rel=0.01)


def test_an_always_busy_server_works_for_the_share_of_time_that_it_is_up():
    """Two groups, one of which never fails, and more work than both can do: nobody is idle while it is there."""
    rng = np.random.default_rng(8)
    up, away = rng.exponential(40.0, 400), rng.exponential(10.0, 400)
    back = np.cumsum(up + away)
    horizon = float(back[-1])
    placement = Placement([Group(ONE, ["a"]), Group(ONE, ["a"])])
    trace = Trace(np.arange(int(3 * horizon)) / 3, np.zeros(int(3 * horizon), dtype=int), ["a"])
    outages = Outages(np.zeros(400, dtype=int), back - away, back, "lost")
    result = simulate(placement, trace, PROFILES, admission=False, conditions=Conditions(outages=outages))
    in_time = (result.finish <= horizon) & (result.group == 0)
    # Each life of the server serves whole seconds: half a second per life is lost on average, and the first arrival
    # after it is back is a third of a second away at most.
    assert in_time.sum() == pytest.approx(up.sum() - 0.5 * 400, abs=0.4 * 400)
    assert ((result.finish <= horizon) & (result.group == 1)).sum() == pytest.approx(horizon, abs=2)
