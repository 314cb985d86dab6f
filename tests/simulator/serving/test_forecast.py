"""Expectations and intervals over draws of one trace."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.profiles.spread import Spread, Variation
from meshwright.simulator import Group, Placement, PlacementSchedule, simulate
from meshwright.simulator.serving import Conditions, Forecast, Outages, draw_times, forecast
from meshwright.traces import Trace, poisson

ONE = ParallelConfig(1, 1)
PROFILES = {"a": ModelProfile.from_stages("a", {ONE: {1: [1.0], 2: [1.5]}})}
PLACEMENT = Placement([Group(ONE, ["a"]), Group(ONE, ["a"])])
SPREAD = Variation(Spread(visits=(0.7, 1.0, 1.3), runs=(0.8, 1.0, 1.2), correlation_s=5.0))


def traffic(duration: float = 200.0) -> Trace:
    return poisson(rate=1.6, duration=duration, models=["a"], slo=3.0, seed=0)


@pytest.mark.parametrize("batching", [None, 2])
def test_engines_forecast_the_same(batching):
    trace = traffic(60.0)
    fast, slow = (
        forecast(PLACEMENT, trace, PROFILES, SPREAD, draws=5, batching=batching, overhead=0.01, engine=engine)
        for engine in ("compiled", "simpy")
    )
    assert fast.attainment.tolist() == slow.attainment.tolist()


def test_draws_are_spawned_from_the_seed_and_do_not_overlap():
    short = forecast(PLACEMENT, traffic(), PROFILES, SPREAD, draws=10, seed=1)
    long = forecast(PLACEMENT, traffic(), PROFILES, SPREAD, draws=40, seed=1)
    assert long.attainment[:10].tolist() == short.attainment.tolist()
    other = forecast(PLACEMENT, traffic(), PROFILES, SPREAD, draws=40, seed=2)
    assert other.attainment[:39].tolist() != long.attainment[1:].tolist()
    assert len(np.unique(long.attainment)) > 10


def test_other_runs_lie_in_the_interval():
    """190 of 200 runs that were not drawn for it, give or take three standard deviations."""
    told = forecast(PLACEMENT, traffic(), PROFILES, SPREAD, draws=400)
    inside = 0
    for seed in range(200):
        times = draw_times(SPREAD, PLACEMENT, 300.0, 10_000 + seed)
        inside += told.holds(simulate(PLACEMENT, traffic(), PROFILES, conditions=Conditions(times)).attainment)
    assert 180 <= inside <= 199
    assert told.low < told.mean < told.high


def test_without_anything_that_varies_an_interval_is_a_point():
    told = forecast(PLACEMENT, traffic(), PROFILES, draws=2)
    assert told.low == told.high == simulate(PLACEMENT, traffic(), PROFILES).attainment


def test_outages_are_drawn_or_given():
    given = Outages([0], [50.0], [100.0])
    fixed = forecast(PLACEMENT, traffic(), PROFILES, outages=given, draws=2)
    assert fixed.mean == simulate(PLACEMENT, traffic(), PROFILES, conditions=Conditions(outages=given)).attainment

    def failures(seed: int) -> Outages:
        down = np.random.default_rng(seed).uniform(0, 150, 3)
        return Outages([0, 1, 0], down, down + 20)

    told = forecast(PLACEMENT, traffic(), PROFILES, outages=failures, draws=20)
    assert told.half_width > 0


def test_a_forecast_says_what_it_holds():
    told = Forecast(np.linspace(0.5, 0.6, 101), 1000, 0.89)
    assert (told.low, told.high) == pytest.approx((0.505, 0.595))
    assert told.holds(0.5046)
    assert not told.holds(0.5044)
    assert told.percentile(50) == pytest.approx(0.55)
    assert repr(told) == "Forecast(attainment 55.00%, 50.50% to 59.50% in 89% of runs (101 draws))"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"draws": 0}, "draws: an interval needs at least 2 draws (got 0)"),
        ({"draws": 1}, "draws: an interval needs at least 2 draws (got 1)"),
        ({"draws": 2.5}, "draws: an interval needs at least 2 draws (got 2.5)"),
        ({"level": 1.0}, "level: expected a share between 0 and 1 (got 1.0)"),
        ({"dispatch": "random"}, "dispatch: unknown policy 'random'"),
        ({"outages": Outages([2], [0.0], [1.0])}, "group 2: the placement has groups 0 to 1"),
    ],
)
def test_bad_input(options, said):
    with pytest.raises(InputError) as caught:
        forecast(PLACEMENT, traffic(10.0), PROFILES, SPREAD, **options)
    assert said in str(caught.value)


def test_a_schedule_has_no_forecast():
    schedule = PlacementSchedule([0.0, 5.0], [PLACEMENT, PLACEMENT])
    with pytest.raises(InputError, match="a forecast is of one Placement"):
        forecast(schedule, traffic(10.0), PROFILES, SPREAD)
