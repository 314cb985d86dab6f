"""The simulated world against queueing theory, within max(4 standard errors, 1 %) under fixed seeds."""

from collections.abc import Callable

import numpy as np
import pytest
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Group, Placement, SimulationResult, simulate
from meshwright.simulator.metrics import mean_interval
from meshwright.simulator.serving import queueing
from meshwright.traces import Trace

ONE, PIPE2 = ParallelConfig(1, 1), ParallelConfig(1, 2)
REPLICATIONS, REQUESTS = 10, 200_000


def profile(stages: dict[ParallelConfig, list[float]]) -> dict[str, ModelProfile]:
    return {name: ModelProfile.from_stages(name, {c: {1: s} for c, s in stages.items()}) for name in ("a", "b")}


def mean_latency(serve: Callable[[Trace], SimulationResult], rate: float, share: float = 1.0):
    """Mean latency over replications of a Poisson process; the first tenth of each is warm-up."""
    means = []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        arrival = np.cumsum(rng.exponential(1 / rate, REQUESTS))
        trace = Trace(arrival, (rng.random(REQUESTS) >= share).astype(np.int32), ("a", "b"))
        means.append(float(serve(trace).latencies[REQUESTS // 10 :].mean()))
    return mean_interval(means)


def assert_agrees(estimate, expected: float, percent: float = 1.0):
    standard_error = estimate.half_width / 2.262  # t quantile of 9 degrees of freedom
    assert abs(estimate.mean - expected) <= max(4 * standard_error, expected * percent / 100)


@pytest.mark.parametrize(("rate", "expected", "percent"), [(0.5, 1.5, 1), (0.8, 3.0, 1), (0.9, 5.5, 2)])
def test_md1(rate, expected, percent):
    placement, profiles = Placement([Group(ONE, ["a"])]), profile({ONE: [1.0]})
    assert_agrees(mean_latency(lambda t: simulate(placement, t, profiles), rate), expected, percent)


@pytest.mark.parametrize("rate", [1.0, 1.6])
def test_two_devices_simple_and_pipelined(rate):
    profiles = profile({ONE: [1.0], PIPE2: [0.5, 0.5]})
    simple = Placement([Group(ONE, ["a"]), Group(ONE, ["b"])])
    pipelined = Placement([Group(PIPE2, ["a", "b"])])
    alone = mean_latency(lambda t: simulate(simple, t, profiles), rate, 0.5)
    together = mean_latency(lambda t: simulate(pipelined, t, profiles), rate, 0.5)
    assert_agrees(alone, float(queueing.w_simple(rate, 1.0)))
    assert_agrees(together, float(queueing.w_pipeline(rate, 1.0, 0.5)))
    assert (together.mean - 1) / (alone.mean - 1) == pytest.approx(0.5, abs=0.02)


def test_skew_hurts_the_simple_placement_only():
    profiles = profile({ONE: [1.0], PIPE2: [0.5, 0.5]})
    simple = Placement([Group(ONE, ["a"]), Group(ONE, ["b"])])
    pipelined = Placement([Group(PIPE2, ["a", "b"])])
    assert_agrees(mean_latency(lambda t: simulate(simple, t, profiles), 1.0, 0.8), 2.625, 2)
    assert_agrees(mean_latency(lambda t: simulate(pipelined, t, profiles), 1.0, 0.8), 1.25)


def test_uneven_pipeline_whatever_the_order_of_its_stages():
    config = ParallelConfig(1, 3)
    results = []
    for stages in ([0.3, 0.5, 0.3], [0.5, 0.3, 0.3], [0.3, 0.3, 0.5]):
        profiles = profile({config: stages})
        results.append(mean_latency(lambda t, p=profiles: simulate(Placement([Group(config, ["a"])]), t, p), 1.6))
    assert_agrees(results[0], 2.1)
    assert results[1].mean == pytest.approx(results[0].mean, rel=1e-9)
    assert results[2].mean == pytest.approx(results[0].mean, rel=1e-9)


def test_pollaczek_khinchine_with_two_kinds_of_requests():
    """Two models of different latency on one device: M/G/1 with a two-point service time."""
    profiles = {
        "a": ModelProfile.from_stages("a", {ONE: {1: [0.5]}}),
        "b": ModelProfile.from_stages("b", {ONE: {1: [4.5]}}),
    }
    mean, cv2 = 0.875 * 0.5 + 0.125 * 4.5, 0.875 * 0.125 * 16.0  # mean 1 s
    placement = Placement([Group(ONE, ["a", "b"])])
    estimate = mean_latency(lambda t: simulate(placement, t, profiles), 0.5, 0.875)
    assert mean == 1.0
    assert_agrees(estimate, float(queueing.mg1(0.5, mean, cv2)), 3)


@pytest.mark.parametrize(("fast", "slow", "share"), [(1.0, 1.0, 0.5), (0.5, 2.5, 0.75)])
def test_erlang_b_loss_whatever_the_service_times(fast, slow, share):
    """An SLO of exactly one's own latency admits only to an idle device: M/G/4/4, insensitive to the distribution."""
    profiles = {
        "a": ModelProfile.from_stages("a", {ONE: {1: [fast]}}),
        "b": ModelProfile.from_stages("b", {ONE: {1: [slow]}}),
    }
    placement = Placement([Group(ONE, ["a", "b"]) for _ in range(4)])
    rng = np.random.default_rng(11)
    n = 400_000
    model = (rng.random(n) >= share).astype(np.int32)
    trace = Trace(np.cumsum(rng.exponential(1 / 3, n)), model, ("a", "b"), np.array([fast, slow]))
    result = simulate(placement, trace, profiles, dispatch="earliest_finish")
    assert result.rejected.mean() == pytest.approx(float(queueing.erlang_b(4, 3.0)), rel=0.01)


@pytest.mark.parametrize("batching", [None, 4])
def test_littles_law_on_a_drained_run(batching):
    """The integral of the number in each group is the sum of the sojourns."""
    rng = np.random.default_rng(3)
    latency = {c: {b: [0.05 * (1 + 0.4 * b)] * c.pp for b in (1, 2, 4)} for c in (ONE, PIPE2)}
    profiles = {name: ModelProfile.from_stages(name, latency) for name in ("a", "b")}
    placement = Placement([Group(ONE, ["a"]), Group(PIPE2, ["a", "b"])])
    trace = Trace(np.cumsum(rng.exponential(1 / 30, 20_000)), rng.integers(0, 2, 20_000), ("a", "b"), 2.0)
    result = simulate(placement, trace, profiles, batching=batching)
    for g in (0, 1):
        mine = result.group == g
        times = np.concatenate((trace.arrival[mine], result.finish[mine]))
        change = np.repeat([1, -1], mine.sum())
        order = np.argsort(times, kind="stable")
        number = np.cumsum(change[order])
        assert number[-1] == 0
        integral = float((number[:-1] * np.diff(times[order])).sum())
        assert integral == pytest.approx(float((result.finish - trace.arrival)[mine].sum()), rel=1e-9)
