"""Fitting and resampling: what goes in comes out, within 4 standard errors; thin windows are handled and said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from meshwright import traces
from meshwright.errors import InputError
from meshwright.traces.windows import EMPTY, MODEL, POISSON, WINDOW

MODELS = ["a", "b", "c"]


def test_rates_and_cvs_of_stationary_processes_are_found() -> None:
    rates, cvs, window, n = [40.0, 20.0, 10.0], [1.0, 2.0, 4.0], 500.0, 40
    trace = traces.gamma(rates, cvs, window * n, MODELS, seed=1)
    fitted = traces.fit_gamma(trace, window, duration=window * n)
    assert fitted.rate.shape == fitted.cv.shape == (n, 3)
    assert (fitted.source == WINDOW).all()
    for k, (rate, cv) in enumerate(zip(rates, cvs, strict=True)):
        error = fitted.rate[:, k].std(ddof=1) / math.sqrt(n)
        excess = (cv**2 - 1) / 2 / (window * n)  # the trace began with a full gap
        assert abs(fitted.rate[:, k].mean() - rate) < 4 * error + excess
        error = fitted.cv[:, k].std(ddof=1) / math.sqrt(n)
        small_sample = 2 * cv**3 / (rate * window)  # a sample's CV is low by this order
        assert abs(fitted.cv[:, k].mean() - cv) < 4 * error + small_sample


def test_fit_then_resample_gives_the_same_rates_and_cvs() -> None:
    trace = traces.maf1_like(60.0, 7200.0, MODELS, law=traces.Drift(functions=6), seed=3)
    fitted = traces.fit_gamma(trace, 600.0, duration=7200.0)
    again = [traces.fit_gamma(fitted.resample(seed), 600.0, duration=7200.0) for seed in range(20)]
    for what in ("rate", "cv"):
        found = np.array([getattr(g, what) for g in again])
        error = found.std(axis=0, ddof=1) / math.sqrt(len(again))
        # 36 windows and models: 5 standard errors each keep the whole test at less than one false alarm in 10⁴.
        assert (np.abs(found.mean(axis=0) - getattr(fitted, what)) < 5 * error + 0.01 * getattr(fitted, what)).all()


def test_resampling_keeps_the_expected_number_of_requests_at_high_cv() -> None:
    trace = traces.gamma(30.0, 4.0, 3600.0, MODELS, seed=0)
    fitted = traces.fit_gamma(trace, 60.0, duration=3600.0).with_cv(4.0)
    assert fitted.expected_requests == pytest.approx(len(trace))
    counts = np.array([len(fitted.resample(seed)) for seed in range(30)])
    full_gap = np.array([len(fitted.resample(seed, equilibrium=False)) for seed in range(30)])
    error = counts.std(ddof=1) / math.sqrt(30)
    assert abs(counts.mean() - len(trace)) < 4 * error
    # The other way of starting brings about (cv² − 1)/2 too many per window and model: 60 × 3 × 7.5 = 1,350.
    assert full_gap.mean() - counts.mean() == pytest.approx(1350, rel=0.25)


def test_scale_scales() -> None:
    trace = traces.gamma(30.0, 2.0, 4000.0, ["a"], seed=4)
    fitted = traces.fit_gamma(trace, 1000.0, duration=4000.0)
    scaled = fitted.scale(rate=3.0, cv=2.0)
    assert np.allclose(scaled.rate, 3 * fitted.rate)
    assert np.allclose(scaled.cv, 2 * fitted.cv)
    found = traces.fit_gamma(scaled.resample(1), 1000.0, duration=4000.0)
    assert found.rate.mean() == pytest.approx(scaled.rate.mean(), rel=4 * scaled.cv.max() / math.sqrt(360_000))
    assert found.cv.mean() == pytest.approx(scaled.cv.mean(), rel=0.05)
    for bad in ({"rate": 0.0}, {"cv": -1.0}, {"rate": float("nan")}):
        with pytest.raises(InputError):
            fitted.scale(**bad)


def test_thin_windows_are_handled_and_said() -> None:
    rng = np.random.default_rng(0)
    busy = np.sort(rng.random(1000) * 60.0)  # 1,000 arrivals in the first window only
    sparse = np.sort(rng.random(60) * 600.0)  # about six a window: too few for a CV each
    lone = np.array([30.0])
    arrival = np.concatenate([busy, sparse, lone])
    model = np.repeat([0, 1, 2], [1000, 60, 1])
    order = np.argsort(arrival)
    fitted = traces.fit_gamma(traces.Trace(arrival[order], model[order], MODELS), 60.0, duration=600.0)
    assert fitted.source[0].tolist() == [WINDOW, MODEL, POISSON]
    assert (fitted.source[1:, 0] == EMPTY).all()
    assert (fitted.rate[1:, 0] == 0).all()
    assert len(set(fitted.cv[fitted.source == MODEL])) == 1
    assert fitted.cv[0, 1] == pytest.approx(1.0, abs=0.4)
    assert fitted.cv[0, 2] == 1.0
    own, pooled, empty = (int((fitted.source == s).sum()) for s in (WINDOW, MODEL, EMPTY))
    assert fitted.note == (
        f"CV from the window's own gaps in {own}, from the model's pooled gaps in {pooled}, "
        f"taken as 1 (Poisson) in 1, no arrival in {empty}"
    )
    again = fitted.resample(1)
    assert again.select(["a"]).duration < 60.0


def test_pooled_cv_sees_burstiness_and_not_the_change_of_rate() -> None:
    # The rate doubles and halves every 1,000 s; a CV over all gaps would find more than the 1.0 of the process.
    rates = np.tile([0.02, 0.2], 20)
    from meshwright.traces.renewal import windowed_renewal

    edges = np.arange(41) * 1000.0
    for cv in (1.0, 2.5):
        times = windowed_renewal(np.random.default_rng(3), rates, np.full(40, cv), edges, equilibrium=True)
        fitted = traces.fit_gamma(traces.Trace(times, np.zeros(len(times), int), ["a"]), 50.0)
        pooled = fitted.cv[fitted.source == MODEL]
        assert pooled[0] == pytest.approx(cv, rel=0.2)
    gaps = np.diff(times)
    assert gaps.std() / gaps.mean() > 1.2 * pooled[0]


def test_even_arrivals_and_simultaneous_ones_do_not_break_it() -> None:
    even = traces.fit_gamma(traces.Trace(np.arange(100.0), np.zeros(100, int), ["a"]), 50.0)
    assert even.cv.tolist() == [[0.01], [0.01]]
    assert len(even.resample(0)) == pytest.approx(100, abs=3)
    same = traces.fit_gamma(traces.Trace(np.full(50, 7.0), np.zeros(50, int), ["a"]), 10.0)
    assert np.isfinite(same.cv).all()


def test_slos_go_through_and_several_per_model_are_refused() -> None:
    trace = traces.poisson(20.0, 100.0, ["a", "b"], slo={"a": 0.1, "b": 0.3})
    resampled = traces.fit_gamma(trace, 10.0).resample(0)
    assert set(zip(resampled.model.tolist(), resampled.slo.tolist(), strict=True)) == {(0, 0.1), (1, 0.3)}
    mixed = traces.Trace([0.0, 1.0], [0, 0], ["a"], [0.1, 0.2])
    with pytest.raises(InputError, match=r"'a' have SLOs from 0.1 to 0.2"):
        traces.fit_gamma(mixed)
    assert traces.fit_gamma(mixed, 1.0, slo=0.5).slo.tolist() == [0.5]


def test_last_window_may_be_short() -> None:
    fitted = traces.fit_gamma(traces.Trace(np.linspace(0, 150, 151), np.zeros(151, int), ["a"]), 60.0)
    assert fitted.edges.tolist() == [0.0, 60.0, 120.0, 150.0]
    assert fitted.count.sum() == 151
    assert fitted.rate[2, 0] == pytest.approx(31 / 30)


def test_frame_has_a_row_per_window_and_model() -> None:
    fitted = traces.fit_gamma(traces.poisson(5.0, 100.0, ["a", "b"], seed=1), 25.0, duration=100.0)
    frame = fitted.to_frame()
    assert len(frame) == 8
    assert frame["count"].sum() == fitted.count.sum()
    assert frame[frame["model"] == "b"]["rate"].tolist() == fitted.rate[:, 1].tolist()


@pytest.mark.parametrize(
    "change", [{"window": 0.0}, {"window": float("nan")}, {"min_gaps": 1}, {"duration": 1.0}, {"window": 1e-9}]
)
def test_bad_arguments_are_refused(change: dict) -> None:
    trace = traces.poisson(5.0, 100.0, ["a"])
    with pytest.raises(InputError):
        traces.fit_gamma(trace, **change)


def test_resampling_too_much_is_refused() -> None:
    fitted = traces.fit_gamma(traces.poisson(5.0, 100.0, ["a"]), 10.0)
    with pytest.raises(InputError, match="requests expected"):
        fitted.scale(rate=1e9).resample()
    with pytest.raises(InputError, match="above 1000"):
        fitted.scale(cv=1e6).resample()


@pytest.mark.parametrize("n", [3, 4, 20])
def test_the_cv_of_a_window_is_that_of_its_gaps(n: int) -> None:
    """Sample standard deviation (n − 1) over the mean, of the gaps between arrivals inside it; edges count for none."""
    draw = np.random.default_rng(n)
    inside = [np.sort(draw.uniform(100.0 * k, 100.0 * (k + 1), n + 1)) for k in range(3)]
    fitted = traces.fit_gamma(
        traces.Trace(np.concatenate(inside), [0] * (3 * n + 3), ["a"]), 100.0, duration=300.0, min_gaps=3
    )
    assert (fitted.source == WINDOW).all()
    for k, times in enumerate(inside):
        gaps = np.diff(times)
        assert fitted.cv[k, 0] == pytest.approx(gaps.std(ddof=1) / gaps.mean(), rel=1e-12)
        assert fitted.rate[k, 0] == pytest.approx((n + 1) / 100.0)
