"""Many draws of one run: the interval's arithmetic, common random numbers, and a closed form."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, StepTimes
from meshwright.profiles.spread import Spread
from meshwright.simulator.llm import LLMTrace
from meshwright.simulator.llm.forecast import Forecast, forecast

CONFIG = {"num_blocks": 101, "max_model_len": 512, "max_num_batched_tokens": 512, "enable_prefix_caching": False}
ALONE = LLMTrace([0.0], [10], [50])


def test_the_interval_holds_order_statistics():
    """Of 199 draws the 5th smallest and the 5th largest: k / (n + 1) = 0.025 and 0.975."""
    told = Forecast({"x": np.random.default_rng(0).permutation(np.arange(1.0, 200.0))})
    assert told.interval("x") == pytest.approx((5.0, 195.0))
    assert told.expected("x") == 100
    assert told.coverage == 0.95
    assert told.inside("x", 195)
    assert not told.inside("x", 195.5)


def test_few_draws_say_how_little_they_cover():
    told = Forecast({"x": np.array([1.0, 2.0, 3.0])})
    assert told.interval("x") == (1.0, 3.0)
    assert told.coverage == 0.5


def test_an_interval_covers_runs_as_often_as_it_says():
    """Intervals of 79 draws and one further run of the same law, often: 95 % of them hold it."""
    rng = np.random.default_rng(1)
    held = [
        Forecast({"x": row[:79]}).inside("x", row[79]) for row in rng.lognormal(0, 0.5, size=(2000, 80))
    ]  # fmt: skip
    assert np.mean(held) == pytest.approx(0.95, abs=4 * np.sqrt(0.05 * 0.95 / 2000))


def test_a_request_alone_takes_the_sum_of_its_steps():
    """50 steps of one second times a factor with mean m and deviation s: mean 50 m, deviation s sqrt(50)."""
    visits = (0.8, 1.0, 1.5)
    told = forecast(ALONE, Spread(visits=visits), cost=ConstantCost(1.0), config=CONFIG, draws=400)
    probability = (np.arange(100_000) + 0.5) / 100_000
    factor = np.interp(probability * 3 - 0.5, np.arange(3), visits)
    runs = told.runs["e2e_p50"]
    assert runs.mean() == pytest.approx(50 * factor.mean(), abs=4 * factor.std() * np.sqrt(50 / 400))
    assert runs.std() == pytest.approx(factor.std() * np.sqrt(50), rel=4 / np.sqrt(800))


def test_a_level_that_is_not_known_widens_every_figure_alike():
    told = forecast(ALONE, Spread(level_sd=0.03), cost=ConstantCost(1.0), config=CONFIG, draws=400)
    runs = told.runs["e2e_p50"] / 50
    assert runs.std() == pytest.approx(0.03, rel=4 / np.sqrt(800))
    np.testing.assert_allclose(told.runs["ttft_p50"], runs, rtol=1e-9)


def test_both_engines_forecast_the_same_and_runs_differ():
    times = StepTimes(Spread(runs=(0.9, 1.2), correlation_s=3.0), (0.7, 1.1))
    told = [
        forecast(ALONE, times, cost=ConstantCost(1.0), config=CONFIG, draws=5, engine=engine)
        for engine in ("compiled", "simpy")
    ]
    np.testing.assert_array_equal(told[0].runs["e2e_p50"], told[1].runs["e2e_p50"])
    assert len(set(told[0].runs["e2e_p50"])) == 5


@pytest.mark.parametrize("draws", [0, 1, -3, True, 2.5])
def test_no_interval_of_so_few_draws(draws):
    with pytest.raises(InputError, match="draws: expected an integer >= 2"):
        forecast(ALONE, Spread(), cost=ConstantCost(1.0), config=CONFIG, draws=draws)
