"""Timing: what is summarised and how often things are called; never how long they take."""

import pytest
from meshwright.kernels.timing import Timing, clock_note, time_callable, time_chain


def test_summary_of_known_times():
    timing = Timing.of([0.4, 0.1, 0.2, 0.3], "perf_counter")
    assert (timing.median_s, timing.min_s, timing.p90_s, timing.n) == (pytest.approx(0.25), 0.1, 0.4, 4)
    assert Timing.of([3.0], "x").p90_s == 3.0


def test_no_times_are_refused():
    with pytest.raises(ValueError, match="no timed call"):
        Timing.of([], "perf_counter")


def test_warm_up_is_called_and_not_counted():
    calls = []
    timing = time_callable(lambda: calls.append(1), warmup=2, repeats=5)
    assert (len(calls), timing.n, timing.clock) == (7, 5, "perf_counter")
    assert 0 <= timing.min_s <= timing.median_s <= timing.p90_s


def test_a_spent_budget_still_times_one_call():
    calls = []
    assert time_callable(lambda: calls.append(1), warmup=5, repeats=100, budget_s=0.0).n == 1
    assert len(calls) == 2


@pytest.mark.parametrize("options", [{"repeats": 0}, {"warmup": -1}])
def test_impossible_counts_are_refused(options):
    with pytest.raises(ValueError, match="expected repeats >= 1 and warmup >= 0"):
        time_callable(lambda: None, **options)


def test_a_chain_hands_on_and_times_each_layer():
    seen = []

    def layer(x):
        seen.append(x)
        return x + 1

    laps = time_chain([layer, layer, layer], 10)
    assert seen == [10, 11, 12]
    assert len(laps) == 3
    assert all(lap.seconds > 0 and 0 <= lap.share <= 1 for lap in laps)


def test_clock_note_without_a_gpu_tool(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert clock_note("cpu") == "perf_counter"
    assert clock_note("cuda:0") == "cuda events"


def test_bandwidth_and_peak_are_rates():
    pytest.importorskip("torch", reason="rates are measured with torch")
    from meshwright.kernels.bandwidth import copy_bandwidth, matmul_peak

    assert copy_bandwidth(n_bytes=2**20, budget_s=0.05) > 1e6
    assert matmul_peak(size=64, budget_s=0.05) > 1e6
