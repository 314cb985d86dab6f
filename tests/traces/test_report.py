"""The report of a trace, its rates over time, and the drawing of them."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright import traces
from meshwright.errors import InputError


@pytest.fixture
def trace() -> traces.Trace:
    arrival = np.concatenate([np.arange(0, 100, 1.0), [100.0, 100.0, 100.0, 100.0]])
    model = np.concatenate([np.zeros(100, dtype=int), [1, 1, 1, 0]])
    return traces.Trace(arrival, model, ["even", "burst", "silent"], [0.5, 0.25, 1.0])


def test_report_rows(trace: traces.Trace) -> None:
    frame = traces.report(trace, window=10.0).set_index("model")
    assert list(frame.index) == ["even", "burst", "silent", "(all)"]
    assert frame["requests"].tolist() == [101, 3, 0, 104]
    assert frame.loc["even", "rate"] == pytest.approx(1.01)
    assert frame.loc["even", "cv"] == pytest.approx(0.0, abs=1e-12)
    assert frame.loc["even", "peak_rate"] == 1.0
    assert frame.loc["even", "peak_to_mean"] == pytest.approx(1 / 1.01)
    assert np.isnan(frame.loc["burst", "cv"])  # its gaps are all 0
    assert np.isnan(frame.loc["silent", "median_slo"])
    assert frame["share"].iloc[:3].sum() == pytest.approx(1.0)
    assert frame.loc["burst", "median_slo"] == 0.25


def test_report_finds_what_was_generated() -> None:
    made = traces.gamma([30.0, 10.0], [4.0, 1.0], 3000.0, ["a", "b"], seed=1)
    frame = traces.report(made).set_index("model")
    assert frame.loc["a", "cv"] == pytest.approx(4.0, rel=0.1)
    assert frame.loc["b", "cv"] == pytest.approx(1.0, rel=0.05)
    assert frame.loc["a", "peak_to_mean"] > frame.loc["b", "peak_to_mean"] > 1.0


def test_rates_sum_to_the_requests_of_whole_windows(trace: traces.Trace) -> None:
    frame = traces.rates(trace, 30.0)
    assert frame.index.tolist() == [0.0, 30.0, 60.0]
    assert (frame.to_numpy() * 30.0).sum() == pytest.approx(90)
    assert traces.rates(trace, 1000.0).shape == (1, 3)


def test_a_trace_of_one_instant_has_a_report() -> None:
    frame = traces.report(traces.Trace([0.0, 0.0], [0, 0], ["a"]))
    assert frame["requests"].tolist() == [2, 2]
    for window in (0.0, float("nan"), -1.0):
        with pytest.raises(InputError, match="window"):
            traces.rates(traces.Trace([1.0], [0], ["a"]), window)


def test_drawing_shows_the_data_it_is_given(trace: traces.Trace) -> None:
    from matplotlib.figure import Figure

    frame = traces.rates(trace, 10.0)
    ax = Figure().add_subplot()
    assert traces.draw_rates(frame, ax) is ax
    total = ax.lines[0].get_ydata()
    assert np.allclose(np.asarray(total), frame.sum(axis=1))
    assert [line.get_label() for line in ax.lines][:2] == ["all models", "even"]
