"""Counting without columns gives the figures of `simulate`."""

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Group, Placement, simulate
from meshwright.simulator.serving.compiled.counting import count_served, rows_of
from meshwright.simulator.serving.tables import build_tables
from meshwright.traces import Trace

ONE, PIPE3 = ParallelConfig(1, 1), ParallelConfig(2, 3)
NAMES = tuple("abcdef")
DISPATCH = ("shortest_queue", "earliest_finish", "earliest_free")


def world(n=4000, rate=90.0, slo=0.4, groups=None, seed=5):
    rng = np.random.default_rng(seed)
    profiles = {
        name: ModelProfile.from_stages(
            name, {c: {1: rng.uniform(0.03, 0.09, c.pp)} for c in (ONE, PIPE3)}, hop_s={PIPE3: 0.002}
        )
        for name in NAMES
    }
    placement = Placement(
        groups or [Group(ONE, [*"abc"]), Group(PIPE3, [*"bcde"]), Group(ONE, [*"de"]), Group(PIPE3, [*"a"])]
    )
    trace = Trace(np.cumsum(rng.gamma(1 / 16, 16 / rate, n)), rng.integers(0, 6, n), NAMES, slo)
    return placement, trace, profiles  # nobody holds f


def counted(placement, trace, profiles, **options):
    tables = build_tables(placement, trace.models, profiles)
    return count_served(trace.arrival, trace.model, trace.slo, tables, **options)


@pytest.mark.parametrize("dispatch", DISPATCH)
@pytest.mark.parametrize("admission", [True, False])
@pytest.mark.parametrize("groups", [None, [Group(PIPE3, NAMES)] * 7, [Group(ONE, NAMES)] * 3], ids=["mixed", "7", "3"])
def test_counts_are_those_of_simulate(dispatch, admission, groups):
    """Both ways of keeping queues (scanned and counted) and the change from one to the other."""
    placement, trace, profiles = world(groups=groups)
    options = {"dispatch": dispatch, "admission": admission, "overhead": 0.005}
    result = simulate(placement, trace, profiles, **options)
    counts = counted(placement, trace, profiles, **options)
    assert counts.complete
    assert counts.seen == len(trace)
    assert counts.attained == result.attained.sum()
    np.testing.assert_array_equal(
        counts.attained_per_model, np.bincount(trace.model, weights=result.attained, minlength=6)
    )
    assert counts.latency == pytest.approx(result.latencies.sum(), rel=1e-9)
    stages = np.array([g.config.pp for g in placement.groups])
    np.testing.assert_allclose(counts.busy, result.utilization() * stages * result.horizon, rtol=1e-9)
    held = np.isin(trace.model, [NAMES.index(m) for m in placement.models])
    assert counts.dispatched.sum() == held.sum()
    if not admission:
        np.testing.assert_array_equal(counts.dispatched, np.bincount(result.group[held], minlength=len(stages)))


@pytest.mark.parametrize("dispatch", DISPATCH)
def test_models_that_share_no_group_can_be_counted_alone(dispatch):
    placement, trace, profiles = world(groups=[Group(ONE, [*"ab"]), Group(PIPE3, [*"cdef"]), Group(PIPE3, [*"ef"])])
    whole = counted(placement, trace, profiles, dispatch=dispatch)
    rows = rows_of(trace.model, [0, 1], 6)
    assert set(trace.model[rows].tolist()) == {0, 1}
    part = counted(placement, trace, profiles, dispatch=dispatch, rows=rows)
    assert part.seen == len(rows)
    np.testing.assert_array_equal(part.attained_per_model[:2], whole.attained_per_model[:2])
    np.testing.assert_array_equal(part.attained_per_model[2:], 0)
    assert part.dispatched[0] == whole.dispatched[0]
    assert part.dispatched[1:].sum() == 0


@pytest.mark.parametrize("dispatch", DISPATCH)
@pytest.mark.parametrize("admission", [True, False])
def test_giving_up_stops_at_the_request_that_is_one_too_many(dispatch, admission):
    placement, trace, profiles = world(groups=[Group(ONE, [*"abcde"])])
    options = {"dispatch": dispatch, "admission": admission}
    missed = np.flatnonzero(~simulate(placement, trace, profiles, **options).attained)
    for limit in (0, 7, len(missed) - 1):
        counts = counted(placement, trace, profiles, limit=limit, **options)
        assert not counts.complete
        assert counts.seen == missed[limit] + 1
        assert counts.attained == counts.seen - limit - 1
    just = counted(placement, trace, profiles, limit=len(missed), **options)
    assert just.complete
    assert just.attained == len(trace) - len(missed)


def test_the_limit_holds_across_a_change_of_the_queues():
    """The ninth request ahead makes the pass begin anew; what was missed before must still count."""
    placement, trace, profiles = world(groups=[Group(PIPE3, [*"abcde"])], slo=5.0)
    missed = np.flatnonzero(~simulate(placement, trace, profiles).attained)
    counts = counted(placement, trace, profiles, limit=len(missed) - 1)
    assert not counts.complete
    assert counts.seen == missed[-1] + 1


def test_bad_input():
    placement, trace, profiles = world(n=5)
    with pytest.raises(InputError, match="limit"):
        counted(placement, trace, profiles, limit=-1)
    with pytest.raises(InputError, match="dispatch"):
        counted(placement, trace, profiles, dispatch="round_robin")
