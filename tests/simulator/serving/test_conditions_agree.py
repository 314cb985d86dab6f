"""Under conditions (drawn times, groups that fail) both engines give the same run, bit for bit and draw for draw."""

from __future__ import annotations

import numpy as np
import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.profiles.spread import CONSTANT, Spread, Variation
from meshwright.simulator import Group, Placement, PlacementSchedule, SimulationResult, simulate
from meshwright.simulator.serving import Conditions, Outages, draw_times
from meshwright.traces import Trace

CONFIGS = (ParallelConfig(1, 1), ParallelConfig(1, 2), ParallelConfig(2, 1), ParallelConfig(2, 3))
DISPATCH = ("shortest_queue", "earliest_finish", "earliest_free")
COLUMNS = ("finish", "start", "group", "batch", "failed", "attempts")
UNIT = 2.0**-4
SPREADS = (
    CONSTANT,
    Spread(visits=(0.25, 0.5, 1.0, 2.5)),
    Spread(runs=(0.5, 1.0, 2.0), correlation_s=0.7),
    Spread(visits=(0.9, 1.1), paths=((0.5, 1.0, 2.0, 1.0), (1.0, 1.0, 0.25, 3.0)), window_s=0.5, level_sd=0.1),
)
RESTING = Spread(visits=(0.5, 1.0, 1.5), rests=((0.0, 0.5), (UNIT, 1.5), (3 * UNIT, 2.0)))


@st.composite
def worlds(draw):
    """A small world with many ties, and what happens to it."""
    names = tuple(f"m{i}" for i in range(draw(st.integers(1, 3))))
    ticks = st.integers(1, 12).map(lambda k: k * UNIT)
    batches = draw(st.sampled_from([(1,), (1, 2, 4), (1, 3)]))
    profiles = {
        name: ModelProfile.from_stages(
            name,
            {c: {b: [draw(ticks) for _ in range(c.pp)] for b in batches} for c in CONFIGS},
            hop_s={c: draw(st.integers(0, 2)) * UNIT for c in CONFIGS},
        )
        for name in names
    }
    held = st.lists(st.sampled_from(names), unique=True)
    placement = Placement(Group(draw(st.sampled_from(CONFIGS)), draw(held)) for _ in range(draw(st.integers(1, 4))))
    n = draw(st.integers(1, 40))
    arrival = np.cumsum(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))) * UNIT
    model = draw(st.lists(st.integers(0, len(names) - 1), min_size=n, max_size=n))
    slos = st.one_of(st.just(np.inf), st.integers(1, 60).map(lambda k: k * UNIT))
    trace = Trace(arrival, model, names, np.array(draw(st.lists(slos, min_size=n, max_size=n))))
    spread = st.sampled_from(SPREADS)
    times = None
    if draw(st.booleans()):
        seed = draw(st.integers(0, 99))
        stages = draw(st.sampled_from((*SPREADS, RESTING)))
        times = draw_times(Variation(stages, draw(spread), draw(spread)), placement, trace.duration + 5, seed)
    rows = draw(st.lists(st.tuples(st.integers(0, len(placement.groups) - 1), st.integers(0, 60), st.integers(1, 30)),
                         max_size=8))  # fmt: skip
    last = [np.inf] if draw(st.booleans()) else []
    up = [(down + away) * UNIT for _, down, away in rows]
    outages = Outages(
        [g for g, _, _ in rows],
        [down * UNIT for _, down, _ in rows],
        [*up[:-1], *last] if last and rows else up,
        draw(st.sampled_from(["lost", "retried"])),
    )
    options = {
        "dispatch": draw(st.sampled_from(DISPATCH)),
        "admission": draw(st.booleans()),
        "overhead": draw(st.integers(0, 3)) * UNIT,
        "batching": draw(st.sampled_from([None, *batches])),
    }
    return placement, trace, profiles, options, Conditions(times, outages)


def both(placement, trace, profiles, conditions, **options) -> SimulationResult:
    """The result, after both engines gave the same."""
    fast, slow = (
        simulate(placement, trace, profiles, engine=engine, conditions=conditions, **options)
        for engine in ("compiled", "simpy")
    )
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(fast, column), getattr(slow, column), err_msg=column)
    np.testing.assert_array_equal(fast.visits.start, slow.visits.start)
    np.testing.assert_array_equal(fast.visits.seconds, slow.visits.seconds)
    return fast


@settings(
    max_examples=examples(60, anew=200),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(worlds())
def test_engines_agree_whatever_happens(world):
    placement, trace, profiles, options, conditions = world
    result = both(placement, trace, profiles, conditions, **options)
    served = result.group >= 0
    # Conservation: each request is served, rejected or lost; who was never sent is not lost while it ran.
    assert not (result.failed & served).any()
    assert (np.isfinite(result.finish) == served).all()
    assert (result.attempts[served] >= 1).all()
    if conditions.outages.in_flight == "retried":
        assert not result.failed.any()
    else:
        assert result.attempts.max() <= 1
    # Causality, and nothing is answered by a group that is away.
    assert (result.start[served] >= trace.arrival[served]).all()
    assert (result.finish[served] >= result.start[served]).all()
    away = [c.group for c in conditions.outages.changes() if c.down and c.at == 0.0]
    up = [c for c in conditions.outages.changes() if not c.down]
    for g in set(away) - {c.group for c in up}:
        assert not (result.group == g).any()
    assert result.timeline().end.shape == result.timeline().start.shape


@pytest.mark.parametrize("dispatch", DISPATCH)
@pytest.mark.parametrize("batching", [None, 4])
@pytest.mark.parametrize("in_flight", ["lost", "retried"])
def test_engines_agree_on_long_queues(dispatch: str, batching: int | None, in_flight: str):
    """Raw floats, a thousand requests, deep queues that are lost at once, groups that fail many times."""
    rng = np.random.default_rng(5)
    names = tuple(f"m{i}" for i in range(4))
    profiles = {
        name: ModelProfile.from_stages(
            name,
            {c: {b: rng.uniform(0.02, 0.1, c.pp) * (1 + 0.6 * (b - 1)) for b in (1, 2, 4)} for c in CONFIGS},
            hop_s=0.003,
        )
        for name in names
    }
    placement = Placement([Group(CONFIGS[0], names[:3]), Group(CONFIGS[1], names[1:]), Group(CONFIGS[3], names)])
    spread = Variation(Spread(visits=(0.6, 1.0, 1.4), runs=(0.8, 1.2), correlation_s=1.0), SPREADS[1], SPREADS[1])
    for seed, admission in enumerate((True, False)):
        trace = Trace(np.cumsum(rng.gamma(1 / 8, 8 / 55, 1000)), rng.integers(0, 4, 1000), names, 0.8)
        down = rng.uniform(0, trace.duration, 20)
        outages = Outages(rng.integers(0, 3, 20), down, down + rng.exponential(0.5, 20), in_flight)
        conditions = Conditions(draw_times(spread, placement, trace.duration, seed), outages)
        options = {"dispatch": dispatch, "batching": batching, "admission": admission, "overhead": 0.011}
        result = both(placement, trace, profiles, conditions, **options)
        assert result.failed.any() == (in_flight == "lost")
        assert (result.attempts.max() > 1) == (in_flight == "retried")


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("batching", [None, 2])
def test_devices_count_their_visits_on_under_a_schedule(engine: str, batching: int | None):
    """A second placement on the same devices draws on, and does not draw the same numbers again."""
    one = CONFIGS[0]
    profiles = {"a": ModelProfile.from_stages("a", {one: {1: [1.0], 2: [1.5]}})}
    placement = Placement([Group(one, ["a"])])
    trace = Trace([0.0, 10.0, 20.0, 30.0], [0] * 4, ["a"])
    times = draw_times(Variation(SPREADS[1]), placement, 40.0, 3)
    options = {"engine": engine, "batching": batching, "conditions": Conditions(times)}
    whole = simulate(placement, trace, profiles, **options)
    parts = simulate(PlacementSchedule([0.0, 15.0], [placement, placement]), trace, profiles, **options)
    assert whole.finish.tolist() == parts.finish.tolist()
    assert parts.visits.seconds[:, 0].tolist() == [times.stages.ratio(0, 0.0, k) for k in range(4)]
