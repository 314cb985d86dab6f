"""Runs that are judged by the requests of every other stretch: nothing of these is used to expect anything."""

from dataclasses import replace

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.runtime.serving.compare.attribution import attribute, own_level
from meshwright.runtime.serving.compare.expectation import expect
from meshwright.runtime.serving.compare.stretches import STRETCH_S, judged
from meshwright.runtime.serving.measure.levels import Levels
from meshwright.runtime.serving.measure.service import in_service
from meshwright.runtime.serving.measure.visits import gaps, visits
from meshwright.traces import Trace
from served_by_hand import PIPELINE, PLACEMENT, SECONDS, TURNAROUND, known, served, session


def judged_run(factors=(1.0, 1.0), seed=0, slower=1.0):
    """A run whose judged requests took `slower` times as long as the others; when things began stays."""
    run = served(factors, seed)
    mask = judged(run.trace)
    took = np.where(mask[:, None], slower * run.stage_s, run.stage_s)
    return replace(run, stage_s=took, counted=mask)


def test_every_other_stretch_is_judged():
    at = np.array([0.1, 0.4, 0.6, 1.2, 1.7, 2.0])
    trace = Trace(arrival=at, model=np.zeros(6, np.int32), models=("a",), slo=np.full(6, 1.0))
    assert judged(trace).tolist() == [False, False, True, False, True, False]
    assert judged(trace, 1.0).tolist() == [False, False, False, True, True, False]
    for few in (at[:2], at[2:3]):
        short = Trace(arrival=few, model=np.zeros(len(few), np.int32), models=("a",), slo=np.full(len(few), 1.0))
        with pytest.raises(InputError, match=r"stretches of 0\.5 s that tell.*take a longer trace"):
            judged(short)


def test_what_is_expected_knows_nothing_of_judged_requests():
    one, other = judged_run(), judged_run(slower=1.5)
    a, b = (in_service(session(), [run], known(), stretch_s=STRETCH_S) for run in (one, other))
    for name, row in SECONDS.items():  # the times between visits are others: what was longer did not begin earlier
        for found in (a, b):
            alone = np.array(found.profiles[name].latency(PIPELINE)) - found.turnaround_s
            assert alone == pytest.approx(row, rel=1e-9)
    assert a.visits == b.visits == int(visits([one]).tells.sum()) < len(visits([one]))
    assert own_level(other, a.profiles) > 1.4 > own_level(one, a.profiles)


def test_gaps_before_judged_requests_do_not_count():
    run = judged_run()
    later = replace(run, finish=np.where(run.counted, run.finish + 1.0, run.finish))
    assert gaps([later]).answer == pytest.approx(gaps([run]).answer)
    assert 0 < len(gaps([run]).turnaround) < len(gaps([replace(run, counted=None)]).turnaround)


def test_rests_are_counted_from_all_visits():
    run = judged_run()
    everything, told = visits([replace(run, counted=None)]), visits([run])
    assert told.idle == pytest.approx(everything.idle)
    half = told.where(told.tells)
    assert half.idle == pytest.approx(everything.idle[told.tells])


def test_halves_that_are_apart_tell_how_well_a_level_is_known():
    levels = Levels(np.array([1.0, 1.1]), np.array([300, 100]), np.array([0.0, 50.0]), np.array([0.02, -0.06]))
    assert levels.error == pytest.approx(np.sqrt((3 * 0.02**2 + 0.06**2) / 4) / 2)
    usual = (300**2 + 100**2) / 400
    assert levels.error_at(1.0) == pytest.approx(levels.error)
    assert levels.error_at(60.0) == pytest.approx(levels.error * np.sqrt(usual / 100))
    unknown = Levels(levels.factor, levels.visits, levels.when_s, np.full(2, np.nan))
    assert unknown.error == Levels(levels.factor, levels.visits, levels.when_s).error
    # Stretches of which every other one is slower: ratios of means by turns.
    run = judged_run()
    slow = (run.trace.arrival / (2 * STRETCH_S)).astype(int) % 2 == 0
    uneven = replace(run, stage_s=np.where(slow[:, None], 1.2 * (run.stage_s + TURNAROUND) - TURNAROUND, run.stage_s))
    found = in_service(session(), [uneven], known(), when_s=[0.0], stretch_s=STRETCH_S)
    assert found.levels.apart == pytest.approx([0.2], abs=0.02)
    assert found.profiles.variation.stages.level_sd == pytest.approx(0.2 / 2, abs=0.01)
    assert found.variation(0.0).stages.level_sd == pytest.approx(found.levels.error)


def test_attainment_is_of_judged_requests_in_both_worlds():
    run = judged_run()
    found = in_service(session(), [run], known(), stretch_s=STRETCH_S)
    told = expect(
        PLACEMENT, run.trace, found.profiles, found.profiles.variation, draws=4, counted=run.counted,
        overhead=found.profiles.overhead_s,
    )  # fmt: skip
    assert told.requests == int(run.counted.sum())
    assert told.mean == pytest.approx(run.attainment, abs=0.03)
    assert run.attainment == pytest.approx(np.mean(run.attained[run.counted]))
    parts = attribute(run, told.mean, told.mean)
    assert parts.real == run.attainment
    assert parts.level == 0.0
    assert parts.jitter + parts.rest == pytest.approx(run.attainment - told.mean)


def test_a_run_in_which_nothing_tells_is_an_error_in_a_line():
    run = served()
    with pytest.raises(InputError, match="none tells"):
        in_service(session(), [replace(run, counted=np.ones(len(run), bool))], known())
