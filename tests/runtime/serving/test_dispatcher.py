"""The runtime's decisions are the simulator's: the same objects, and in exact conditions the same answers."""

import numpy as np
import pytest
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.profiles.spread import Spread, Variation
from meshwright.runtime.serving.compare.attribution import attribute, own_level, replay, stage_ratios
from meshwright.runtime.serving.dispatcher import Dispatcher
from meshwright.runtime.serving.measure.probe import Probe, ProbeJob
from meshwright.runtime.serving.result import RunResult
from meshwright.simulator import Group, Placement, simulate
from meshwright.simulator.serving import Conditions, draw_times, reference
from meshwright.simulator.serving.policy import Controller
from meshwright.simulator.serving.policy.batching import BatchingController
from meshwright.simulator.serving.replay import stage_spans
from meshwright.simulator.serving.tables import build_tables
from meshwright.traces import Trace, gamma

MODELS = ("a", "b", "c")
ONE, PIPELINE = ParallelConfig(1, 1), ParallelConfig(1, 2)


def profiles():
    return {
        name: ModelProfile.from_stages(
            name,
            {
                ONE: {1: [base], 2: [1.6 * base], 4: [2.9 * base]},
                PIPELINE: {1: [0.5 * base, 0.55 * base], 2: [0.8 * base, 0.9 * base], 4: [1.5 * base, 1.4 * base]},
            },
            hop_s=0.001,
        )
        for name, base in zip(MODELS, (0.02, 0.03, 0.05), strict=True)
    }


PLACEMENT = Placement([Group(ONE, ["a", "b"]), Group(PIPELINE, ["a", "b", "c"]), Group(ONE, ["c", "a"])])


def bursty(seed=0, slo=0.12):
    return gamma(60.0, 3.0, 20.0, list(MODELS), slo=slo, seed=seed)


def slower(profile, factor):
    latency = {
        config: {batch: [factor * s for s in row] for batch, row in stage.latency.items()}
        for config, stage in profile.stages.items()
    }
    return ModelProfile.from_stages(profile.name, latency, hop_s=0.001)


def as_run(simulated, factor=1.0):
    """A real run in which every stage took `factor` times what the profile says."""
    tables = simulated.segments[0].tables
    n, width = len(simulated), tables.latency.shape[2]
    seconds, begun = np.full((n, width), np.nan), np.full((n, width), np.nan)
    spans = stage_spans(simulated.segments[0], simulated)
    begun[spans.request, spans.stage] = spans.start
    sizes = np.ones(n, dtype=int) if simulated.batch is None else simulated.batch
    if simulated.visits is not None:
        seconds[:] = factor * simulated.visits.seconds
    for i in np.flatnonzero(~simulated.rejected & (simulated.visits is None)):
        group = simulated.group[i]
        pair = tables.pair(int(simulated.trace.model[i]), int(group))
        column = int(np.searchsorted(tables.sizes, sizes[i]))
        stages = int(tables.stages[group])
        seconds[i, :stages] = factor * tables.latency[pair, column, :stages]
    return RunResult(
        simulated.trace, simulated.finish, simulated.group, simulated.segments, simulated.overhead,
        start_column=simulated.start, batch=np.where(simulated.rejected, 0, sizes), engine="real",
        dispatch=simulated.dispatch, stage_start=begun, stage_s=seconds, cpu_s=seconds,
    )  # fmt: skip


VARIES = Variation(Spread(visits=(0.5, 0.9, 1.0, 1.1, 1.5)))


@pytest.mark.parametrize("dispatch", ["shortest_queue", "earliest_finish", "earliest_free"])
@pytest.mark.parametrize("max_batch", [None, 4])
@pytest.mark.parametrize("overhead", [0.0, 0.002])
@pytest.mark.parametrize("spread", [Variation(), VARIES], ids=["exact", "drawn"])
def test_stage_times_replay_to_the_simulation(dispatch, max_batch, overhead, spread):
    """What the dispatcher of a real run decides from the ends that it hears is what was simulated, to the request."""
    times = Conditions(draw_times(spread, PLACEMENT, 20.0, 1))
    simulated = simulate(
        PLACEMENT, bursty(), profiles(), dispatch=dispatch, batching=max_batch, overhead=overhead, conditions=times
    )
    finish = replay(as_run(simulated), batching=max_batch is not None)
    assert 0.2 < simulated.attainment < 0.98
    if overhead and max_batch:  # a single stage's wait for its answer counts as turnaround, of which the mean is taken
        assert np.mean(np.isnan(finish)) == pytest.approx(np.mean(simulated.rejected), abs=0.02)
    else:
        assert finish == pytest.approx(simulated.finish, abs=1e-6, nan_ok=True)


def test_slower_stages_are_blamed_on_the_level():
    quick = profiles()
    slow = {name: slower(profile, 1.5) for name, profile in quick.items()}
    real = as_run(simulate(PLACEMENT, bursty(), slow))  # whose controller knows the slow times
    assert own_level(real, quick) == pytest.approx(1.5)
    expected, moved = (simulate(PLACEMENT, bursty(), known).attainment for known in (quick, slow))
    parts = attribute(real, expected, moved)
    assert parts.level < -0.02
    assert (parts.jitter, parts.rest) == pytest.approx((0.0, 0.0))
    assert parts.difference == pytest.approx(parts.level + parts.jitter + parts.rest)


def test_stage_ratios_are_those_of_the_times():
    slow = as_run(simulate(PLACEMENT, bursty(), profiles()), factor=1.5)
    ratios = stage_ratios(slow)
    assert ratios[["p50", "p90", "p99"]].to_numpy() == pytest.approx(1.5)
    assert ratios["cpu"].to_numpy() == pytest.approx(1.0)


@pytest.mark.parametrize(("batching", "kind"), [(False, Controller), (True, BatchingController)])
def test_the_policy_is_the_reference_engines_own_class(batching, kind):
    tables = build_tables(PLACEMENT, MODELS, profiles(), 4 if batching else 1)
    dispatcher = Dispatcher(bursty(), tables, batching=batching)
    assert type(dispatcher.policy) is kind
    assert type(dispatcher.following) is reference.Following


def one_device(arrival, slo):
    known = {"a": ModelProfile.from_stages("a", {ONE: {1: [1.0], 2: [1.5]}})}
    trace = Trace(arrival, [0] * len(arrival), ["a"], slo)
    return trace, build_tables(Placement([Group(ONE, ["a"])]), ["a"], known)


def test_clocks_follow_a_late_finish():
    trace, tables = one_device([0.0, 0.1, 1.6], 2.6)
    dispatcher = Dispatcher(trace, tables)
    assert dispatcher.arrive(0.0, 0) is not None
    assert dispatcher.arrive(0.1, 1) is not None  # predicted to end at 2.0
    dispatcher.finished(0, 1.5, 1.5)  # half a second late, and so will the next one be
    assert dispatcher.policy.clock[0] == [pytest.approx(2.5)]
    assert dispatcher.arrive(1.6, 2) is not None  # 3.5 <= 4.2
    assert dispatcher.policy.clock[0] == [pytest.approx(3.5)]


@pytest.mark.parametrize("waiting", [1, 2, 3, 5, 9])
def test_who_waits_is_counted_out_batch_by_batch(waiting):
    """`waiting` is what stands in the queues, and `undecided` what has no answer yet, at every step."""
    known = profiles()
    trace = Trace(np.arange(waiting + 1) * 1e-4, [0] * (waiting + 1), ["a"], 10.0)
    dispatcher = Dispatcher(trace, build_tables(Placement([Group(ONE, ["a"])]), ["a"], known, 4), batching=True)
    policy = dispatcher.policy
    assert isinstance(policy, BatchingController)
    for r in range(waiting + 1):
        job = dispatcher.arrive(float(trace.arrival[r]), r)
        assert (job is not None) == (r == 0)
        assert dispatcher.waiting == r
    now, open_, last = 0.0, waiting + 1, 0
    while dispatcher.undecided:
        now += 1.0
        batch = dispatcher.jobs[last].requests
        dispatcher.finished(last, now, now)
        open_ -= len(batch)
        job = dispatcher.freed(now, 0)
        last += 1
        assert (dispatcher.waiting, dispatcher.undecided) == (sum(map(len, policy.queues)), open_)
        assert (job is None) == (open_ == 0)
    assert dispatcher.waiting == 0
    assert sorted(r for job in dispatcher.jobs for r in job.requests) == list(range(waiting + 1))


def test_errors_of_a_busy_period_are_not_added_up():
    """Jobs of a second that take 1.5 s, 0.8 s, 1.2 s, …: after each the clock is its real end and a second for each
    job that is still ahead, whatever was corrected before."""
    n, real = 6, [1.5, 0.8, 1.2, 1.0, 2.0, 0.5]
    trace, tables = one_device([0.01 * k for k in range(n)], 100.0)
    dispatcher = Dispatcher(trace, tables)
    for k in range(n):
        assert dispatcher.arrive(0.01 * k, k) is not None
    end = 0.0
    for k in range(n):
        end += real[k]
        dispatcher.finished(k, end, end)
        assert dispatcher.policy.clock[0] == [pytest.approx(end + n - 1 - k)]


def test_clocks_follow_an_overdue_job():
    trace, tables = one_device([0.0, 1.7], 2.0)
    dispatcher = Dispatcher(trace, tables)
    dispatcher.arrive(0.0, 0)
    assert dispatcher.arrive(1.7, 1) is not None
    assert dispatcher.policy.clock[0] == [pytest.approx(2.7)], "the overdue job cannot end before now"


def test_without_correction_clocks_are_the_profiles():
    trace, tables = one_device([0.0, 0.1], 5.0)
    dispatcher = Dispatcher(trace, tables, correct=False)
    dispatcher.arrive(0.0, 0)
    dispatcher.finished(0, 1.5, 1.5)
    assert dispatcher.policy.clock[0] == [1.0]


def test_lost_group_fails_its_requests_and_is_not_chosen_again():
    trace, tables = one_device([0.0, 0.1, 0.2], 9.0)
    dispatcher = Dispatcher(trace, tables)
    dispatcher.arrive(0.0, 0)
    dispatcher.arrive(0.1, 1)
    assert sorted(dispatcher.lost(0)) == [0, 1]
    assert dispatcher.failed.tolist() == [True, True, False]
    assert dispatcher.arrive(0.2, 2) is None
    assert dispatcher.undecided == 0
    dispatcher.finished(0, 1.0, 1.0)  # an answer that was under way
    assert np.isnan(dispatcher.finish).all()


def test_lost_group_fails_requests_that_wait_for_it():
    known = {"a": ModelProfile.from_stages("a", {ONE: {1: [1.0], 2: [1.5]}})}
    trace = Trace([0.0, 0.1, 0.2], [0, 0, 0], ["a"], 9.0)
    tables = build_tables(Placement([Group(ONE, ["a"])]), ["a"], known, 2)
    dispatcher = Dispatcher(trace, tables, batching=True)
    assert dispatcher.arrive(0.0, 0) is not None
    assert dispatcher.arrive(0.1, 1) is None
    assert dispatcher.arrive(0.2, 2) is None
    assert sorted(dispatcher.lost(0)) == [0, 1, 2]
    assert dispatcher.undecided == 0


def test_probe_counts_down_whatever_happens():
    probe = Probe([ProbeJob(0.0, 0, 0), ProbeJob(0.0, 1, 0, 2), ProbeJob(1.0, 1, 0)])
    first, second = probe.arrive(0.0, 0), probe.arrive(0.0, 1)
    assert (first.group, len(second.requests)) == (0, 2)
    probe.finished(0, 0.5, 0.6)
    assert probe.lost(1) == [1]
    assert probe.arrive(1.0, 2) is None
    assert probe.undecided == 0
    assert probe.finish[0] == 0.6
