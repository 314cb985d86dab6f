"""Metrics, trimming, frames and timelines of a result."""

import json
from itertools import pairwise

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Group, Placement, PlacementSchedule, simulate
from meshwright.simulator.metrics import instability
from meshwright.traces import Trace

ONE, PIPE2 = ParallelConfig(1, 1), ParallelConfig(1, 2)
PROFILES = {n: ModelProfile.from_stages(n, {ONE: {1: [1.0]}, PIPE2: {1: [0.5, 0.5]}}) for n in ("a", "b")}


def served(slo=1.5, **options):
    placement = Placement([Group(ONE, ["a"]), Group(PIPE2, ["b"])])
    trace = Trace([0.0, 0.0, 0.5, 0.5, 4.0], [0, 0, 1, 1, 0], ("a", "b"), slo)
    return simulate(placement, trace, PROFILES, **options)


def test_metrics_by_hand():
    result = served()
    assert result.finish[[0, 2, 3, 4]].tolist() == [1, 1.5, 2, 5]
    assert result.rejected.tolist() == [False, True, False, False, False]
    assert len(result) == 5
    assert result.attainment == 0.8
    assert result.goodput == 4 / 4.0
    assert result.mean_latency == 4.5 / 4
    assert result.latency(0) == 1.0
    assert result.latency(100) == 1.5
    assert result.horizon == 5.0
    assert "80.00%" in repr(result)


def test_a_percentile_out_of_range():
    with pytest.raises(InputError, match="0 to 100"):
        served().latency(101)


def test_nothing_served_has_no_latency():
    result = served(slo=0.25)
    assert result.attainment == 0.0
    assert np.isnan(result.mean_latency)
    assert np.isnan(result.latency(50))
    assert len(result.timeline()) == 0
    assert result.utilization().tolist() == [0, 0]
    assert result.horizon == 4.0


def test_per_model_and_per_group():
    result = served()
    models = result.per_model()
    assert models["requests"].to_dict() == {"a": 3, "b": 2}
    assert models["rejected"].to_dict() == {"a": 1, "b": 0}
    assert models["attainment"].to_dict() == {"a": pytest.approx(2 / 3), "b": 1.0}
    assert models.loc["b", "mean_latency"] == 1.25
    groups = result.per_group()
    assert groups["config"].tolist() == ["op1pp1", "op1pp2"]
    assert groups["requests"].tolist() == [2, 2]
    assert groups["utilization"].tolist() == [2 / 5, 2 / 10]
    assert groups["offered_load"].tolist() == [2 / 4, 1 / 4]


def test_frame_has_a_row_per_request():
    frame = served().to_frame()
    assert frame["model"].tolist() == ["a", "a", "b", "b", "a"]
    assert frame["attained"].tolist() == [True, False, True, True, True]
    assert frame["start"].tolist()[2:] == [0.5, 1.0, 4.0]


def test_utilization_over_time():
    windows = served().utilization(1.0)
    # 3 devices. Second 0: a all of it, b's first stage half; second 1: both stages of b half or whole ...
    np.testing.assert_allclose(windows, [1.5 / 3, 1.5 / 3, 0, 0, 1 / 3])
    with pytest.raises(InputError, match="window"):
        served().utilization(0.0)


def test_under_a_schedule_each_placement_has_its_own_groups():
    first, second = Placement([Group(ONE, ["a"])]), Placement([Group(ONE, ["b"]), Group(ONE, ["a"])])
    trace = Trace([0.0, 1.5, 2.0, 3.0], [0, 0, 0, 1], ("a", "b"))
    result = simulate(PlacementSchedule([0, 2], [first, second]), trace, PROFILES)
    frame = result.per_group()
    assert frame.index.tolist() == [(0, 0), (1, 0), (1, 1)]
    assert frame["requests"].tolist() == [2, 1, 1]
    assert frame["utilization"].tolist() == [2 / 2, 1 / 2, 1 / 2]  # the second placement holds from 2 to 4
    assert len(result.timeline().lanes) == 3
    assert result.placement == first


@pytest.mark.parametrize("n", [7, 1000])
def test_trim_by_requests_is_the_authors_rule(n):
    """skip = int(warm-up / (last - first arrival) * n) requests at both ends."""
    rng = np.random.default_rng(n)
    arrival = np.cumsum(rng.exponential(0.5, n))
    result = simulate(Placement([Group(ONE, ["a"])]), Trace(arrival, np.zeros(n, int), ("a",), 2.0), PROFILES)
    warmup = 0.15 * (arrival[-1] - arrival[0])
    skip = int(warmup / (arrival[-1] - arrival[0]) * n)
    trimmed = result.trim(warmup, by="requests")
    assert trimmed.attainment == result.attained[skip : n - skip].mean()
    kept = arrival[skip : n - skip]
    assert trimmed.goodput == pytest.approx(result.attained[skip : n - skip].sum() / (kept[-1] - kept[0]))
    assert result.counted is None


def test_trim_by_time():
    result = served()
    trimmed = result.trim(0.25)  # leaves the two requests at 0.5 s
    assert trimmed.attainment == 1.0
    assert trimmed.latencies.tolist() == [1.0, 1.5]
    assert trimmed.per_model()["requests"].to_dict() == {"a": 0, "b": 2}


@pytest.mark.parametrize("by", ["time", "requests"])
def test_trim_that_leaves_nothing(by):
    with pytest.raises(InputError, match="leaves no request"):
        served().trim(10.0, by=by)


@pytest.mark.parametrize("warmup", [-1.0, float("nan")])
def test_trim_wants_seconds(warmup):
    with pytest.raises(InputError, match="warmup_s"):
        served().trim(warmup)


def test_trim_by_something_else():
    with pytest.raises(InputError, match="'time' or 'requests'"):
        served().trim(1.0, by="phase of the moon")


def test_chrome_trace(tmp_path):
    path = served().timeline().to_chrome(tmp_path / "t.json")
    events = json.loads(path.read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == 2 + 2 * 2
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {"group 0 op1pp1", "group 1 op1pp2"}
    assert spans[0] == {
        "ph": "X", "name": "a", "pid": 0, "tid": 0, "ts": 0.0, "dur": 1e6, "args": {"request": 0},
    }  # fmt: skip
    for tid in {e["tid"] for e in spans}:
        mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if e["tid"] == tid)
        assert all(b[0] >= a[1] for a, b in pairwise(mine))


def test_timeline_plot_draws_a_bar_per_span():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ax = served().timeline().plot()
    assert sum(len(c.get_paths()) for c in ax.collections) == 6
    assert served().timeline().plot(ax, start=3.5) is ax
    pyplot.close(ax.figure)


def test_an_overloaded_group_is_called_unstable():
    trace = Trace(np.arange(1, 101) * 0.5, np.zeros(100, int), ("a",))
    placement = Placement([Group(PIPE2, ["b"]), Group(ONE, ["a"])])
    warning = instability(simulate(placement, trace, PROFILES))
    assert warning == "unstable: utilisation 2.00 on group 1; the mean grows with the horizon"
    assert instability(simulate(Placement([Group(PIPE2, ["a"])] * 2), trace, PROFILES)) is None
