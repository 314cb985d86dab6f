"""Generators: the rates and CVs that were asked for (within 4 standard errors), independent named streams, splits."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright import traces
from meshwright.errors import InputError
from meshwright.traces.renewal import renewal, windowed_renewal
from meshwright.traces.splits import power_law, shares

MODELS = [f"m{i}" for i in range(8)]


@pytest.mark.parametrize("cv", [0.25, 1.0, 4.0])
def test_gaps_have_the_mean_and_cv_asked_for(cv: float) -> None:
    n_target = 200_000
    trace = traces.gamma(rate=50.0, cv=cv, duration=n_target / 50.0, models=["a"], seed=3)
    gaps = np.diff(trace.arrival)
    mean_error = cv / 50.0 / math.sqrt(len(gaps))
    assert abs(gaps.mean() - 1 / 50.0) < 4 * mean_error
    kurtosis = 3 + 6 * cv**2  # of a Gamma law with shape 1/cv²
    variance_error = (cv / 50.0) ** 2 * math.sqrt((kurtosis - 1) / len(gaps))
    assert abs(gaps.var() - (cv / 50.0) ** 2) < 4 * variance_error


def test_poisson_counts_are_poisson() -> None:
    trace = traces.poisson(rate=10.0, duration=20_000.0, models=["a"], seed=1)
    counts = np.bincount((trace.arrival / 10.0).astype(int), minlength=2000)
    assert abs(counts.mean() - 100) < 4 * math.sqrt(100 / 2000)
    assert abs(counts.var(ddof=1) / counts.mean() - 1) < 4 * math.sqrt(2 / 2000)


def test_first_arrival_comes_after_a_full_gap() -> None:
    # At CV 4 a stationary process would have its first arrival after (1 + cv²)/2 = 8.5 mean gaps, not after 1.
    rng = np.random.default_rng(0)
    first = np.array([renewal(rng, 1.0, 4.0, 1000.0)[0] for _ in range(2000)])
    assert abs(first.mean() - 1.0) < 4 * 4.0 / math.sqrt(len(first))


@pytest.mark.parametrize(("equilibrium", "expected"), [(True, 60.0), (False, 60.0 + 7.5)])
def test_equilibrium_start_keeps_the_rate_of_windows(equilibrium: bool, expected: float) -> None:
    n = 20_000
    times = windowed_renewal(
        np.random.default_rng(5), np.ones(n), np.full(n, 4.0), np.arange(n + 1) * 60.0, equilibrium=equilibrium
    )
    counts = np.bincount((times / 60.0).astype(int), minlength=n)
    # The excess of a process that starts with a full gap is (cv² − 1)/2 only in the limit of long windows.
    slack = 0.0 if equilibrium else 0.5
    assert abs(counts.mean() - expected) < 4 * counts.std() / math.sqrt(n) + slack


@given(st.floats(0.05, 6.0), st.floats(0.0, 40.0), st.floats(0.5, 30.0), st.integers(0, 2**32))
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_renewal_is_sorted_and_inside(cv: float, rate: float, duration: float, seed: int) -> None:
    times = renewal(np.random.default_rng(seed), rate, cv, duration)
    assert (np.diff(times) >= 0).all()
    assert ((times >= 0) & (times < duration)).all()


def test_a_window_of_almost_no_rate_leaves_the_others_exact() -> None:
    rate, cv, edges = np.array([1e-300, 5e-324, 40.0]), np.array([1.0, 2.0, 1.0]), np.array([0.0, 10.0, 20.0, 30.0])
    times = windowed_renewal(np.random.default_rng(0), rate, cv, edges, equilibrium=False)
    assert 400 - 80 < len(times) < 400 + 80
    assert ((times >= 20.0) & (times < 30.0)).all()


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0.1, 5), st.floats(0, 8)), min_size=1, max_size=8))
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_windows_hold_only_their_own_arrivals(windows: list[tuple[float, float, float]]) -> None:
    rate, cv, length = (np.array(column) for column in zip(*windows, strict=True))
    edges = np.concatenate(([0.0], np.cumsum(length)))
    times = windowed_renewal(np.random.default_rng(1), rate, cv, edges, equilibrium=True)
    assert (np.diff(times) >= 0).all()
    window = np.searchsorted(edges, times, side="right") - 1
    assert (rate[window] > 0).all()


def test_rate_is_the_total_and_split_applies() -> None:
    trace = traces.gamma(rate=100.0, cv=2.0, duration=2000.0, models=MODELS, split={"power_law": 0.5}, seed=0)
    expected = 100.0 * 2000.0 * power_law(8, 0.5)
    assert (abs(trace.counts() - expected) < 4 * 2.0 * np.sqrt(expected)).all()
    assert trace.models == tuple(MODELS)


def test_adding_a_model_moves_no_other_arrival() -> None:
    few = traces.gamma(rate={"a": 5.0, "b": 2.0}, cv=3.0, duration=100.0, models=["a", "b"], seed=9)
    many = traces.gamma(rate={"z": 9.0, "b": 2.0, "a": 5.0}, cv=3.0, duration=100.0, models=["z", "b", "a"], seed=9)
    for name in ("a", "b"):
        assert np.array_equal(few.select([name]).arrival, many.select([name]).arrival)
    assert not np.array_equal(many.select(["z"]).arrival[:50], many.select(["a"]).arrival[:50])


def test_same_seed_same_bytes_other_seed_other_trace() -> None:
    def make(seed: int) -> traces.Trace:
        return traces.gamma(20.0, 4.0, 60.0, MODELS, slo=0.5, seed=seed)

    assert make(1) == make(1)
    assert make(1) != make(2)


def test_same_bytes_in_another_process_under_another_hash_seed() -> None:
    code = (
        "import hashlib; from meshwright import traces;"
        "t = traces.maf2_like(20.0, 300.0, ['a', 'b', 'c'], seed=4);"
        "print(hashlib.sha256(t.arrival.tobytes() + t.model.tobytes()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1


def test_per_model_cvs() -> None:
    trace = traces.gamma([50.0, 50.0], [0.5, 3.0], 2000.0, ["calm", "wild"], seed=2)
    cvs = [np.diff(times).std() / np.diff(times).mean() for times in trace.arrivals_by_model()]
    assert cvs[0] == pytest.approx(0.5, rel=0.05)
    assert cvs[1] == pytest.approx(3.0, rel=0.1)


def test_slo_by_model_reaches_the_requests() -> None:
    trace = traces.poisson(5.0, 60.0, ["a", "b"], slo={"a": 0.1, "b": 0.2})
    assert set(zip(trace.model.tolist(), trace.slo.tolist(), strict=True)) == {(0, 0.1), (1, 0.2)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 0.0}, "rate"),
        ({"rate": -1.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": float("inf")}, "rate"),
        ({"rate": "fast"}, "rate: expected a number"),
        ({"cv": None}, "cv"),
        ({"rate": [1.0]}, "expected 2 figures"),
        ({"rate": {"a": 1.0}}, "none for model 'b'"),
        ({"rate": {"a": 1.0, "b": 1.0, "c": 1.0}}, "unknown model 'c'"),
        ({"rate": [1.0, 1.0], "split": [0.5, 0.5]}, "nothing to split"),
        ({"cv": 0.0}, "cv"),
        ({"cv": float("nan")}, "cv"),
        ({"cv": 1e4}, "cv"),
        ({"duration": 0.0}, "duration"),
        ({"duration": float("inf")}, "duration"),
        ({"rate": 1e6, "duration": 1e6}, "requests"),
        ({"rate": 1e-9}, "no request arrives"),
        ({"models": []}, "at least one model"),
        ({"models": ["a", "a"]}, "distinct"),
        ({"seed": -1}, "seed"),
        ({"slo": 0.0}, "slo"),
    ],
)
def test_bad_arguments_are_refused(change: dict, message: str) -> None:
    arguments = {"rate": 5.0, "cv": 2.0, "duration": 10.0, "models": ["a", "b"]} | change
    with pytest.raises(InputError, match=message):
        traces.gamma(**arguments)


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        (None, [0.25] * 4),
        ("uniform", [0.25] * 4),
        ([1, 1, 2, 0], [0.25, 0.25, 0.5, 0.0]),
        ({"a": 1, "b": 3, "c": 0, "d": 4}, [0.125, 0.375, 0.0, 0.5]),
        ({"power_law": 0.0}, [0.25] * 4),
        ({"power_law": 1.0}, [12 / 25, 6 / 25, 4 / 25, 3 / 25]),
    ],
)
def test_shares(split: object, expected: list[float]) -> None:
    assert shares(split, ["a", "b", "c", "d"]).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ([0.5], "expected 2 shares"),
        ([0.5, -0.5], ">= 0"),
        ([0.0, 0.0], "at least one share"),
        ([float("nan"), 1.0], "finite"),
        ({"a": 1.0}, "no share for model 'b'"),
        ({"zipf": 1.0}, "neither a model nor a law"),
        ({"power_law": float("inf")}, "exponent"),
        ("skewed", "unknown law"),
    ],
)
def test_bad_splits_are_refused(split: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        shares(split, ["a", "b"])


@given(st.integers(1, 200), st.floats(0, 3))
def test_a_power_law_sums_to_one_and_falls(n: int, exponent: float) -> None:
    law = power_law(n, exponent)
    assert law.sum() == pytest.approx(1.0)
    assert (np.diff(law) <= 0).all()


def test_alpaserve_gamma_is_the_authors_loop_bit_for_bit() -> None:
    rates, cv, duration = [3.0, 0.01, 7.5], 4.0, 200.0
    expected = []
    for i, rate in enumerate(rates):
        legacy = np.random.RandomState(5 + i)
        now = legacy.gamma(1 / cv**2, cv**2 / rate)
        while now < duration:
            expected.append((now, i))
            now += legacy.gamma(1 / cv**2, cv**2 / rate)
    expected.sort()
    trace = traces.alpaserve_gamma(rates, cv, duration, ["a", "b", "c"], seed=5)
    assert trace.arrival.tolist() == [t for t, _ in expected]
    assert trace.model.tolist() == [i for _, i in expected]
    for bad in ({"cv": 0.0}, {"duration": -1.0}, {"seed": -1}, {"rate": 0.0}):
        with pytest.raises(InputError):
            traces.alpaserve_gamma(**({"rate": 1.0, "cv": 1.0, "duration": 9.0, "models": ["a"]} | bad))
