"""The synthetic MAF1 and MAF2 have the character that the paper gives of the real ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright import traces
from meshwright.errors import InputError
from meshwright.traces.azure.synthetic import burst_profile, drift_profile

MODELS = [f"m{i}" for i in range(16)]
HOUR, DAY = 3600.0, 86_400.0


def test_total_rate_is_the_one_asked_for() -> None:
    for make in (traces.maf1_like, traces.maf2_like):
        counts = [len(make(rate=10.0, duration=HOUR, models=MODELS, seed=seed)) for seed in range(12)]
        error = np.std(counts, ddof=1) / math.sqrt(len(counts))
        assert abs(np.mean(counts) - 36_000) < 4 * error
        assert error < 360


def test_maf1_is_dense_and_changes_slowly() -> None:
    trace = traces.maf1_like(rate=160.0, duration=4 * HOUR, models=MODELS, seed=1)
    rates = traces.rates(trace, 60.0).to_numpy()
    assert rates.min() > 0  # every model is called in every minute
    assert traces.report(trace, 60.0)["peak_to_mean"].max() < 2.0
    smooth = traces.rates(trace, 600.0).to_numpy()
    step = np.abs(np.diff(np.log(smooth), axis=0)).mean()
    spread = np.log(smooth).std(axis=0).mean()
    assert step < spread  # neighbouring windows are more alike than windows in general


def test_maf2_is_skewed_over_orders_of_magnitude() -> None:
    trace = traces.maf2_like(
        rate=50.0, duration=DAY / 2, models=[f"f{i}" for i in range(48)], law=traces.Bursts(functions=48), seed=1
    )
    counts = np.sort(trace.counts())
    assert counts[-1] > 1000 * max(1, counts[0])
    assert counts[-5:].sum() > 0.5 * len(trace)


def test_maf2_spikes_up_to_fifty_times_the_mean() -> None:
    models = [f"f{i}" for i in range(24)]
    trace = traces.maf2_like(
        rate=50.0, duration=DAY / 2, models=models, law=traces.Bursts(functions=24, skew=0.0, cv=1.0), seed=2
    )
    ratio = traces.rates(trace, 60.0).max() / traces.rates(trace, 60.0).mean()
    assert ratio.max() > 25
    # 50 is the highest rate; a minute at it holds 50 × 2.1 × 60 ≈ 6,000 requests, so noise adds little.
    assert ratio.max() < 50 * 1.05
    assert traces.report(traces.maf1_like(100.0, DAY / 8, models, seed=2))["peak_to_mean"].max() < 3


def test_functions_are_dealt_round_robin_and_do_not_depend_on_each_other() -> None:
    one = traces.maf2_like(20.0, HOUR, ["a", "b"], law=traces.Bursts(functions=4, skew=0.0), seed=5)
    other = traces.maf2_like(20.0, HOUR, ["a", "b", "c", "d"], law=traces.Bursts(functions=4, skew=0.0), seed=5)
    joined = np.sort(np.concatenate([other.select([name]).arrival for name in ("a", "c")]))
    assert np.array_equal(one.select(["a"]).arrival, joined)


@given(st.integers(1, 400), st.floats(1.01, 200), st.floats(0, 0.99), st.floats(0.1, 20), st.integers(0, 10_000))
@settings(max_examples=examples(30, anew=80), deadline=None)
def test_bursts_have_mean_one_and_never_pass_the_peak(
    n: int, peak: float, share: float, length: float, seed: int
) -> None:
    edges = np.arange(n + 1) * 60.0
    profile = burst_profile(np.random.default_rng(seed), edges, peak, share, length)
    assert (profile >= 0).all()
    assert profile.mean() == pytest.approx(1.0)
    assert profile.max() <= max(peak, 1.0) * (1 + 1e-9)


@given(st.integers(1, 300), st.floats(0, 1), st.floats(1, 1e5))
@settings(max_examples=examples(20, anew=40), deadline=None)
def test_drift_has_mean_one(n: int, drift: float, relaxation: float) -> None:
    profile = drift_profile(np.random.default_rng(0), np.arange(n + 1) * 60.0, drift, relaxation)
    assert (profile > 0).all()
    assert profile.mean() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (traces.maf1_like, {"rate": 0.0}),
        (traces.maf1_like, {"duration": float("nan")}),
        (traces.maf1_like, {"law": {"drift": -1.0}}),
        (traces.maf1_like, {"law": {"relaxation": 0.0}}),
        (traces.maf1_like, {"law": {"functions": 1}}),
        (traces.maf2_like, {"law": {"peak": 1.0}}),
        (traces.maf2_like, {"law": {"burst_share": 1.0}}),
        (traces.maf2_like, {"law": {"burst_length": 0.0}}),
        (traces.maf2_like, {"law": {"cv": 5000.0}}),
        (traces.maf2_like, {"law": {"window": -60.0}}),
        (traces.maf2_like, {"rate": 1e9, "duration": 1e9}),
    ],
)
def test_bad_parameters_are_refused(make, change: dict) -> None:
    kind = traces.Drift if make is traces.maf1_like else traces.Bursts
    asked = {"rate": 5.0, "duration": 600.0, "models": ["a", "b"]} | change

    def drawn() -> traces.Trace:
        return make(**{**asked, "law": kind(**asked.get("law", {}))})

    with pytest.raises(InputError):
        drawn()


@pytest.mark.parametrize("relaxation", [120.0, 600.0, 3600.0])
def test_drift_is_the_process_that_it_says(relaxation: float) -> None:
    """The logarithm of a rate has the standard deviation that was asked for, and forgets it by e in `relaxation`."""
    n, drift = 40_000, 0.5
    level = np.log(drift_profile(np.random.default_rng(1), np.arange(n + 1) * 60.0, drift, relaxation))
    level -= level.mean()
    memory = relaxation / 60.0  # windows that tell of each other
    error = (2 * (1 + memory) / n) ** 0.5  # of the variance of an AR(1) process, relative
    assert level.var() == pytest.approx(drift**2, rel=4 * error)
    lag = max(1, round(memory))
    remembered = float(np.mean(level[lag:] * level[:-lag]) / level.var())
    assert remembered == pytest.approx(np.exp(-lag * 60.0 / relaxation), abs=4 * error)
