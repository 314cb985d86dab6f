"""Groups that are started and drained by load: by hand, what must change nothing, and that nobody knows the future."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.profiles.spread import Spread, Variation
from meshwright.simulator import Group, Placement, PlacementSchedule, SimulationResult, simulate
from meshwright.simulator.serving import Conditions, Outages, Scaling, draw_times
from meshwright.simulator.serving.policy.scaling import Order, Scaler
from meshwright.traces import Trace

ONE = ParallelConfig(1, 1)
PIPE = ParallelConfig(1, 2)
COLUMNS = ("finish", "start", "group", "batch", "failed", "attempts")
RULE = Scaling(least=1, up=2.0, down=1.0, load_s=(3.0, 3.0), every_s=2.0, hold_s=4.0)


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
    assert fast.uses == slow.uses
    assert fast.engine == ("simpy" if conditions.scaling is not None and options.get("batching") else "compiled")
    return fast


def served(arrivals: list[float], rule: Scaling, outages: Outages | None = None, **options) -> SimulationResult:
    """Two replicas of a model that takes one second, by both engines."""
    profile = ModelProfile.from_stages("a", {ONE: {1: [1.0], 2: [1.5], 4: [2.0]}})
    placement = Placement([Group(ONE, ["a"])] * 2)
    trace = Trace(arrivals, [0] * len(arrivals), ["a"])
    return both(placement, trace, {"a": profile}, Conditions(outages=outages, scaling=rule), **options)


def test_a_group_is_started_and_given_back_by_hand() -> None:
    # Group 0 alone takes the first five: it ends one each second. At 2 s it has 3 > 2: group 1 starts, and serves at 5.
    # At 4 s one is left, 1/2 of a request per group: low. At 6 and 8 still; 8 is 4 s after 4: group 1 is idle, and off.
    result = served([0.0, 0.25, 0.5, 0.75, 1.0, 4.5, 5.5, 7.9, 8.5, 12.0], RULE)
    assert result.group.tolist() == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    np.testing.assert_allclose(result.finish, [1, 2, 3, 4, 5, 6, 6.5, 8.9, 9.9, 13])
    assert result.uses == ((0, 0.0, 0.0, math.inf), (1, 2.0, 5.0, 8.0))
    assert result.device_s == pytest.approx(13 + 6)


def test_a_drained_group_ends_what_it_has_and_gets_nothing() -> None:
    # At 8 s there are two requests on group 0 and one on group 1, which is drained and ends at 8.91.
    arrivals = [0.0, 0.25, 0.5, 0.75, 1.0, 4.5, 5.5, 7.9, 7.91, 7.92, 8.2, 9.0]
    result = served(arrivals, replace(RULE, up=2.5, down=2.0))
    assert result.group.tolist() == [0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0]
    assert result.uses is not None
    assert result.uses[1] == (1, 2.0, 5.0, pytest.approx(8.91))


def test_one_that_served_loads_again_when_it_is_repaired() -> None:
    # The request that group 0 runs at 1.5 is lost, and tried anew while nobody is there: rejected, as is the one at 3.
    # At 2 nobody holds the model: group 1 is started without any load, and serves at 5. Group 0 is repaired at 5, and
    # serves at 8. The load is 0 in the evaluations from 4 to 8: at 8 both serve, and the higher index is given back.
    result = served([0.0, 1.0, 3.0, 6.0, 8.5], RULE, Outages([0], [1.5], [5.0]))
    assert result.group.tolist() == [0, -1, -1, 1, 0]
    assert result.attempts.tolist() == [1, 1, 0, 1, 1]
    np.testing.assert_allclose(result.finish, [1, math.nan, math.nan, 7, 9.5])
    assert result.uses == ((0, 0.0, 0.0, 1.5), (1, 2.0, 5.0, 8.0), (0, 5.0, 8.0, math.inf))
    assert result.device_s == pytest.approx(1.5 + 6 + 4.5)


def test_one_that_fails_while_it_loads_loads_anew() -> None:
    # Group 1 is started at 2, as above, fails at 3, and begins anew at 4: it serves at 7, and gets the request of 7.6.
    result = served([0.0, 0.25, 0.5, 0.75, 1.0, 6.5, 7.5, 7.6], RULE, Outages([1], [3.0], [4.0]))
    assert result.group.tolist() == [0] * 7 + [1]
    assert result.uses == ((0, 0.0, 0.0, math.inf), (1, 2.0, math.inf, 3.0), (1, 4.0, 7.0, math.inf))


def test_one_that_fails_while_it_drains_stays_off() -> None:
    # As where it drains from 8 on, but it fails at 8.5: its request is the last in the queue of group 0, and no load.
    arrivals = [0.0, 0.25, 0.5, 0.75, 1.0, 4.5, 5.5, 7.9, 7.91, 7.92, 8.2, 9.0]
    result = served(arrivals, replace(RULE, up=2.5, down=2.0), Outages([1], [8.5], [8.75]))
    assert result.group.tolist()[8:] == [0, 0, 0, 0]
    assert result.attempts.tolist()[8:] == [2, 1, 1, 1]
    np.testing.assert_allclose(result.finish[7:], [8.9, 11.9, 9.9, 10.9, 12.9])
    assert result.uses == ((0, 0.0, 0.0, math.inf), (1, 2.0, 5.0, 8.5))
    lost = served(arrivals, replace(RULE, up=2.5, down=2.0), Outages([1], [8.5], [8.75], "lost"))
    assert lost.failed.tolist() == [r == 8 for r in range(12)]


def test_one_that_is_off_cannot_be_started_while_it_is_down() -> None:
    # It is down from 1 to 3, so that at 2 nobody can be started; at 4 there are 5 requests: it is, and serves at 7.
    result = served([*np.arange(0, 2, 0.25), 7.5], RULE, Outages([1], [1.0], [3.0]))
    assert result.uses == ((0, 0.0, 0.0, math.inf), (1, 4.0, 7.0, math.inf))
    assert result.group.tolist() == [0] * 8 + [1]


def test_a_cold_start() -> None:
    result = served([0.0, 3.0, 4.0], replace(RULE, cold=True))
    assert result.group.tolist() == [-1, 0, 0]
    assert result.uses == ((0, 0.0, 3.0, math.inf),)


def test_the_rule_makes_up_for_groups_that_failed() -> None:
    scaler = Scaler(replace(RULE, least=2, load_s=(1.0,) * 4), [[0], [0], [0], [1]])
    assert scaler.state == ["serving", "off", "off", "serving"]
    scaler.sent(1.0, 0, 1)
    scaler.failed(1.5, 0)
    assert scaler.outstanding == [0] * 4
    scaler.failed(1.6, 1)
    assert scaler.evaluate(2.0) == Order(2, "start")  # nobody holds model 0, and group 1 is down too
    assert scaler.evaluate(4.0) is None
    assert scaler.repaired(4.5, 0)
    assert not scaler.repaired(4.5, 1)
    assert scaler.state == ["loading", "off", "loading", "serving"]
    scaler.failed(4.6, 0)
    scaler.failed(4.7, 3)
    assert scaler.evaluate(6.0) == Order(1, "start")  # nobody can hold model 1, but fewer than 2 are there


def test_one_that_drains_is_taken_back_before_another_loads() -> None:
    scaler = Scaler(replace(RULE, least=1, load_s=(1.0,) * 3, hold_s=0.0), [[0], [0], [0]])
    assert [scaler.serves(g) for g in range(3)] == [True, False, False]
    scaler.sent(1.0, 0, 3)
    assert scaler.evaluate(2.0) == Order(1, "start")
    scaler.loaded(3.0, 1)
    scaler.sent(3.0, 1, 1)
    scaler.answered(3.5, 0, 3)
    scaler.sent(3.6, 1, 0)
    assert scaler.evaluate(4.0) == Order(0, "drain")  # it has none, group 1 has one
    scaler.sent(4.5, 1, 4)
    assert scaler.evaluate(6.0) == Order(0, "start")  # it was off at once
    scaler.loaded(7.0, 0)
    scaler.sent(7.0, 0, 1)
    scaler.answered(7.5, 1, 5)
    scaler.sent(7.5, 1, 0)
    assert scaler.evaluate(8.0) == Order(1, "drain")
    scaler.sent(9.0, 0, 2)
    assert scaler.evaluate(10.0) == Order(1, "start")


def test_a_draining_group_is_taken_back() -> None:
    scaler = Scaler(replace(RULE, down=1.9, load_s=(1.0,) * 3, hold_s=0.0, least=2), [[0], [0], [0]])
    scaler.sent(1.0, 0, 5)
    assert scaler.evaluate(2.0) == Order(2, "start")
    scaler.loaded(3.0, 2)
    scaler.answered(3.0, 0, 3)
    scaler.sent(3.0, 1, 1)
    scaler.sent(3.0, 2, 1)
    assert scaler.evaluate(4.0) == Order(2, "drain")  # as few as group 1, and the higher index
    scaler.sent(5.0, 0, 4)
    assert scaler.evaluate(6.0) == Order(2, "take back")
    assert [use[:3] for use in scaler.uses()] == [(0, 0.0, 0.0), (1, 0.0, 0.0), (2, 2.0, 3.0)]


def test_utilization_is_the_time_with_requests() -> None:
    rule = Scaling(1, up=0.7, down=0.1, load_s=(1.0, 1.0), by="utilization", every_s=10.0, hold_s=0.0)
    scaler = Scaler(rule, [[0], [0]])
    scaler.sent(1.0, 0, 1)
    scaler.sent(2.0, 0, 1)
    scaler.answered(4.0, 0, 1)
    scaler.answered(7.0, 0, 1)
    assert scaler.evaluate(10.0) is None  # 6 of 10 s
    scaler.sent(12.0, 0, 1)
    assert scaler.evaluate(20.0) == Order(1, "start")  # 8 of 10 s
    assert scaler.evaluate(30.0) is None  # 10 s of 2 · 10: that it loads counts as idle
    scaler.loaded(31.0, 1)
    scaler.answered(31.0, 0, 1)
    assert scaler.evaluate(40.0) == Order(1, "drain")  # 1 s of 2 · 10


def test_every_model_is_always_served() -> None:
    rule = Scaling(1, up=2.0, down=1.0, load_s=(0.0,) * 4, every_s=1.0, hold_s=0.0)
    scaler = Scaler(rule, [[0], [0], [], [1]])
    assert scaler.state == ["serving", "off", "off", "serving"]
    assert scaler.evaluate(1.0) is None  # neither can go
    scaler.sent(1.5, 3, 9)
    assert scaler.evaluate(2.0) == Order(1, "start")  # nobody else can be started, and none without models
    assert scaler.evaluate(3.0) is None


@st.composite
def worlds(draw):
    """A placement with replicas, traffic that comes in bursts, and a rule."""
    names = tuple(f"m{i}" for i in range(draw(st.integers(1, 2))))
    unit = 2.0**-4
    ticks = st.integers(1, 12).map(lambda k: k * unit)
    profiles = {
        name: ModelProfile.from_stages(
            name, {c: {b: [draw(ticks) for _ in range(c.pp)] for b in (1, 2, 4)} for c in (ONE, PIPE)}, hop_s=unit
        )
        for name in names
    }
    held = st.lists(st.sampled_from(names), unique=True)
    groups = [Group(PIPE, names)]
    groups += [Group(draw(st.sampled_from((ONE, PIPE))), draw(held)) for _ in range(draw(st.integers(1, 4)))]
    n = draw(st.integers(2, 50))
    arrival = np.cumsum(draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 30]), min_size=n, max_size=n))) * unit
    slo = draw(st.sampled_from([np.inf, 2.0, 5.0]))
    trace = Trace(arrival, draw(st.lists(st.integers(0, len(names) - 1), min_size=n, max_size=n)), names, slo)
    rule = Scaling(
        least=draw(st.integers(1, len(groups))),
        up=draw(st.sampled_from([0.75, 1.5, 3.0])),
        down=draw(st.sampled_from([0.0, 0.25, 0.7])),
        load_s=tuple(draw(st.sampled_from([0.0, 0.5, 3.0])) for _ in groups),
        by=draw(st.sampled_from(["outstanding", "utilization"])),
        every_s=draw(st.sampled_from([0.25, 1.0])),
        hold_s=draw(st.sampled_from([0.0, 1.0])),
        cold=draw(st.booleans()),
    )
    options = {
        "dispatch": draw(st.sampled_from(["shortest_queue", "earliest_finish", "earliest_free"])),
        "admission": draw(st.booleans()),
        "overhead": draw(st.integers(0, 2)) * unit,
        "batching": draw(st.sampled_from([None, 4])),
    }
    placement = Placement(groups)
    varies = Variation(Spread(visits=(0.5, 1.0, 2.0)))
    times = draw_times(varies, placement, trace.duration + 5, 3) if draw(st.booleans()) else None
    rows = draw(
        st.lists(st.tuples(st.integers(0, len(groups) - 1), st.integers(0, 80), st.integers(1, 40)), max_size=6)
    )
    down = [at * unit for _, at, _ in rows]
    up = [(at + away) * unit for _, at, away in rows]
    outages = Outages([g for g, _, _ in rows], down, up, draw(st.sampled_from(["lost", "retried"])))
    return placement, trace, profiles, options, rule, times, outages if draw(st.booleans()) else None


@settings(max_examples=examples(100, anew=400), deadline=None)
@given(worlds())
def test_what_must_hold_of_any_rule(world) -> None:
    placement, trace, profiles, options, rule, times, outages = world
    result = both(placement, trace, profiles, Conditions(times, outages, rule), **options)
    assert result.uses is not None
    # Who serves is in use, and has its weights, for all of it.
    for r in np.flatnonzero(result.group >= 0):
        mine = [u for u in result.uses if u.group == result.group[r]]
        assert any(u.serves_s <= result.start[r] and result.finish[r] <= u.until_s for u in mine)
        assert result.trace.models[trace.model[r]] in placement.groups[result.group[r]].models
    for use in result.uses:
        loaded = (use.from_s + rule.load_s[use.group], math.inf)
        assert use.serves_s in loaded or (use.from_s == use.serves_s == 0 and not rule.cold)
        for row in range(0 if outages is None else len(outages)):  # who is down is not in use
            if outages.group[row] == use.group:
                assert use.until_s <= outages.down_s[row] or outages.up_s[row] <= use.from_s
    assert result.device_s <= replace(result, uses=None).device_s * (1 + 1e-12)
    if outages is None:
        # At any time `least` groups with models are in use (as many as there are).
        some = min(rule.least, sum(bool(group.models) for group in placement.groups))
        for at in {0.0, *(use.until_s for use in result.uses if use.until_s < math.inf)}:
            assert sum(use.from_s <= at < use.until_s for use in result.uses) >= some
        # A request without a deadline is served, whatever is started or drained.
        if not np.isfinite(trace.slo).any() and not rule.cold:
            assert not result.rejected.any()


@settings(max_examples=examples(40, anew=200), deadline=None)
@given(worlds())
def test_a_rule_that_never_acts_is_the_plain_run(world) -> None:
    placement, trace, profiles, options, rule, times, outages = world
    rule = replace(rule, least=len(placement.groups), load_s=(0.0,) * len(placement.groups))
    plain = simulate(placement, trace, profiles, conditions=Conditions(times, outages), **options)
    same = simulate(placement, trace, profiles, conditions=Conditions(times, outages, rule), **options)
    never = replace(rule, up=1e9, down=0.0)
    still = simulate(placement, trace, profiles, conditions=Conditions(times, outages, never), **options)
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(plain, column), getattr(same, column), err_msg=column)
        np.testing.assert_array_equal(getattr(plain, column), getattr(still, column), err_msg=column)
    assert plain.engine == "compiled"
    if outages is None and all(group.models for group in placement.groups):
        assert same.device_s == plain.device_s


@settings(max_examples=examples(40, anew=200), deadline=None)
@given(worlds(), st.integers(0, 60), st.integers(0, 99))
def test_nothing_before_an_instant_depends_on_what_comes_after(world, tick: int, seed: int) -> None:
    placement, trace, profiles, options, rule, times, _ = world
    options["batching"] = None  # a batch is formed later than its members arrive, with who has come by then
    at = tick * 2.0**-3
    before = int(np.searchsorted(trace.arrival, at))
    rng = np.random.default_rng(seed)
    later = at + np.cumsum(rng.integers(0, 4, 20)) * 2.0**-4
    arrival = np.concatenate([trace.arrival[:before], later])
    model = np.concatenate([trace.model[:before], rng.integers(0, len(trace.models), 20)])
    other = Trace(arrival, model, trace.models, float(trace.slo[0]))
    conditions = Conditions(times, scaling=rule)
    first = simulate(placement, trace, profiles, conditions=conditions, **options)
    second = simulate(placement, other, profiles, conditions=conditions, **options)
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(first, column)[:before], getattr(second, column)[:before])
    until = min(at, trace.arrival[-1])  # the load is evaluated as long as requests arrive
    begun = [[use[:2] for use in r.uses if use.from_s < until] for r in (first, second)]
    assert begun[0] == begun[1]


def test_loading_costs_attainment_and_scaling_saves_devices() -> None:
    arrivals = np.sort(np.concatenate([np.arange(0, 200, 2.0), np.arange(60, 100, 0.6)])).tolist()
    rule = Scaling(1, up=1.5, down=0.6, load_s=(0.0, 0.0), every_s=1.0, hold_s=5.0)
    latency = {}
    for load_s in (0.0, 10.0, 30.0):
        result = served(arrivals, replace(rule, load_s=(load_s, load_s)))
        latency[load_s] = result.mean_latency
        assert result.device_s < 0.75 * replace(result, uses=None).device_s
    assert latency[0.0] < latency[10.0] < latency[30.0]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"least": 0}, "scaling: least: expected an integer >= 1"),
        ({"least": True}, "scaling: least: expected an integer >= 1"),
        ({"by": "hope"}, "scaling: by: expected one of outstanding, utilization"),
        ({"up": 0.0}, "scaling: up: expected a finite load > 0"),
        ({"up": math.nan}, "scaling: up: expected a finite load > 0"),
        ({"down": 2.0}, "scaling: down: expected a load >= 0 and below up 2"),
        ({"every_s": 0.0}, "scaling: every_s: expected finite seconds > 0"),
        ({"hold_s": -1.0}, "scaling: hold_s: expected finite seconds >= 0"),
        ({"load_s": (1.0, math.inf)}, "scaling: load_s: group 1: expected finite seconds >= 0"),
    ],
)
def test_bad_rules_are_refused(said, message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(RULE, **said)


def test_rules_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="load_s: expected seconds for each of 2 groups"):
        served([0.0], replace(RULE, load_s=(1.0,)))
    with pytest.raises(InputError, match="least: the placement has 2 groups"):
        served([0.0], replace(RULE, least=3))
    with pytest.raises(InputError, match="scaling: expected Scaling"):
        Conditions(scaling=3)  # type: ignore[arg-type]
    profile = ModelProfile.from_stages("a", {ONE: {1: [1.0]}})
    placement = Placement([Group(ONE, ["a"])] * 2)
    schedule = PlacementSchedule([0.0, 1.0], [placement, placement])
    with pytest.raises(InputError, match="scaling is of the groups of one placement"):
        simulate(schedule, Trace([0.0], [0], ["a"]), {"a": profile}, conditions=Conditions(scaling=RULE))
