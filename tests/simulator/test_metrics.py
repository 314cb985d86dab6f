"""Intervals, paired comparisons and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.simulator.metrics import Estimate, mean_interval, paired_difference, percentile, replicate, tail
from scipy import stats


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_interval_is_students(confidence):
    x = np.random.default_rng(1).normal(3.0, 2.0, 12)
    estimate = mean_interval(x, confidence)
    low, high = stats.t.interval(confidence, 11, x.mean(), stats.sem(x))
    assert (estimate.low, estimate.high) == (pytest.approx(low), pytest.approx(high))
    assert estimate.n == 12


def test_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(2)
    estimates = [mean_interval(rng.exponential(1.0, 30), 0.9) for _ in range(2000)]
    covered = np.mean([e.low <= 1.0 <= e.high for e in estimates])
    assert 0.85 < covered < 0.93  # a skewed law covers a little less than 0.9


def test_one_value_has_no_interval():
    estimate = mean_interval([2.0])
    assert estimate.mean == 2.0
    assert np.isnan(estimate.half_width)
    assert not estimate.differs_from_zero
    assert str(estimate) == "2"
    assert str(Estimate(1.23456, 0.0321, 10)) == "1.235 ± 0.032"


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_values_without_a_mean(values):
    with pytest.raises(InputError, match="mean_interval"):
        mean_interval(values)


def test_confidence_out_of_range():
    with pytest.raises(InputError, match="confidence"):
        mean_interval([1.0, 2.0], 1.0)


def test_pairing_sees_what_two_intervals_do_not():
    rng = np.random.default_rng(3)
    luck = rng.normal(0, 1, 20)  # common random numbers
    a, b = 0.80 + luck, 0.75 + luck + rng.normal(0, 0.01, 20)
    difference = paired_difference(a, b)
    assert difference.differs_from_zero
    assert difference.low < 0.05 < difference.high
    assert mean_interval(a).low < mean_interval(b).high
    with pytest.raises(InputError, match="same replications"):
        paired_difference(a, b[1:])


def test_replicate_gives_each_metric_an_interval():
    seen = []

    def measure(seed):
        seen.append(seed)
        return {"x": float(seed), "one": 1.0}

    result = replicate(measure, 5)
    assert seen == [0, 1, 2, 3, 4]
    assert result["x"].mean == 2.0
    assert result["one"].half_width == 0.0
    assert replicate(measure, [7]).keys() == {"x", "one"}
    with pytest.raises(InputError, match="at least one seed"):
        replicate(measure, [])
    with pytest.raises(InputError, match="same metrics"):
        replicate(lambda s: {str(s): 1.0}, 2)


def test_a_tail_is_refused_where_too_few_requests_lie_in_it():
    x = np.arange(10_000.0)
    assert tail(x).value == np.percentile(x, 99)
    refused = tail(x[1:])
    assert np.isnan(refused.value)
    assert str(refused) == "refused: p99 needs 10000 finished requests, there are 9999"
    assert np.isnan(tail(x, 99.9).value)
    assert tail(x[:1], 50).value == 0.0
    assert np.isnan(tail([], 50).value)
    with pytest.raises(InputError, match="0 to 100"):
        tail(x, -1)


@given(
    st.lists(st.floats(-1e9, 1e9) | st.just(float("nan")), min_size=1, max_size=40),
    st.floats(0, 100) | st.sampled_from([0, 50, 90, 99, 100]),
)
def test_a_percentile_is_numpys_bit_for_bit(values, at):
    ours, theirs = percentile(np.array(values), at), float(np.percentile(values, at))
    assert ours == theirs or (np.isnan(ours) and np.isnan(theirs))


def test_of_nothing_there_is_no_percentile():
    assert np.isnan(percentile(np.zeros(0), 50))
