"""Visits, gaps and costs in service, from runs whose times are known; other requests; who used the cores."""

from dataclasses import replace

import numpy as np
import pytest
from meshwright.runtime.serving.compare.attribution import Attribution
from meshwright.runtime.serving.compare.cells import Cell, Comparison
from meshwright.runtime.serving.measure.cores import NOT_KNOWN, Snapshot, used_between
from meshwright.runtime.serving.measure.levels import NEAR_S, Levels
from meshwright.runtime.serving.measure.rehearse import other_requests
from meshwright.runtime.serving.measure.service import in_service
from meshwright.runtime.serving.measure.visits import gaps, visits
from meshwright.simulator.serving.forecast import Forecast
from meshwright.traces import gamma
from served_by_hand import ANSWER, HOP, MODELS, PIPELINE, SECONDS, TURNAROUND, known, served, session


def test_what_passes_between_visits_is_found():
    run = served()
    found, between = visits([run]), gaps([run])
    assert len(found) == 2 * int((run.group >= 0).sum())
    assert between.turnaround == pytest.approx(TURNAROUND)
    assert len(between.turnaround) > 50
    # Some come while the stage turns round, and wait a part of that.
    assert np.quantile(between.arrival, [0.0, 0.9]) == pytest.approx(0.0, abs=1e-12)
    assert np.median(between.hop) == pytest.approx(TURNAROUND + HOP)
    assert between.answer == pytest.approx(TURNAROUND + ANSWER)


def test_rounds_are_laid_end_to_end():
    found = visits([served(seed=1), served(seed=2)])
    assert set(found.run) == {0, 1}
    first = found.end[found.run == 0].max()
    assert (found.start[found.run == 1] >= first - ANSWER).all()


def test_costs_in_service_are_those_that_were_served_with():
    found = in_service(session(), [served((1.1, 0.9)), served((1.1, 0.9), seed=5)], known())
    for name, row in SECONDS.items():
        took = [f * s + TURNAROUND for f, s in zip((1.1, 0.9), row, strict=True)]
        assert found.profiles[name].latency(PIPELINE) == pytest.approx(took)
        assert found.profiles[name].hop_s(PIPELINE) == pytest.approx(HOP)
    assert found.profiles.overhead_s == pytest.approx(ANSWER)
    assert found.levels.factor == pytest.approx([1.0, 1.0])
    assert np.array(found.profiles.variation.stages.paths) == pytest.approx(1.0, abs=1e-3)
    assert found.profiles.variation.stages.level_sd == pytest.approx(0.0, abs=1e-9)
    assert found.turnaround_s == pytest.approx(TURNAROUND)


def test_a_predictor_that_is_off_stays_and_the_factors_say_how_far():
    fast, slow = served((1.0, 1.0)), served((1.3, 1.3), seed=3)
    base = in_service(session(), [fast], known()).profiles
    found = in_service(session(), [fast, slow], base, refit=False)
    assert found.profiles["b-0"].latency(PIPELINE) == base["b-0"].latency(PIPELINE)
    low, high = found.levels.factor
    assert low == pytest.approx(1.0, abs=1e-3)
    assert 1.25 < high < 1.3  # the turnaround does not grow
    assert found.levels.drift == pytest.approx((high - low) / 2**0.5, rel=1e-3)  # rounds of about one size
    # Each round is expected to be as the other one.
    off = np.sqrt(np.average([(low / high - 1) ** 2, (high / low - 1) ** 2], weights=found.levels.visits))
    assert found.profiles.variation.stages.level_sd == pytest.approx(off)
    assert 1.1 < found.profiles.variation.stages.mean < 1.25


def test_a_run_is_expected_to_be_as_the_rounds_near_it_were():
    fast, slow = served((1.0, 1.0)), served((1.3, 1.3), seed=3)
    base = in_service(session(), [fast], known()).profiles
    found = in_service(session(), [fast, slow], base, refit=False, when_s=[100.0, 400.0])
    low, high = found.levels.factor
    assert found.variation(100.0).stages.mean == pytest.approx(low, rel=1e-3)
    assert found.variation(400.0).stages.mean == pytest.approx(high, rel=1e-3)
    assert found.variation(250.0).stages.mean == pytest.approx(found.profiles.variation.stages.mean, rel=1e-3)


def test_levels_by_hand():
    levels = Levels(np.array([1.0, 1.2, 1.1]), np.array([100, 100, 200]))
    assert levels.at() == pytest.approx(1.1)
    assert levels.at(7.0) == levels.at()
    assert levels.drift == pytest.approx(np.sqrt(0.005 * (8 / 3) / (5 / 3)))
    told = [(1.2 + 2 * 1.1) / 3, (1.0 + 2 * 1.1) / 3, 1.1]
    off = [1.0 / told[0] - 1, 1.2 / told[1] - 1, 0.0]
    assert levels.error == pytest.approx(np.sqrt((off[0] ** 2 + off[1] ** 2) / 4))
    near = Levels(levels.factor, levels.visits, np.array([0.0, NEAR_S, 1e6]))
    assert near.at(0.0) == pytest.approx((1.0 + 1.2 / np.e) / (1 + 1 / np.e))
    assert near.at(1e9) == pytest.approx(1.1)  # far from all is nearest to the last
    assert Levels(levels.factor[:1], levels.visits[:1]).error == 0.0


def test_what_a_rest_costs_is_found_and_is_not_in_the_recording():
    run = served()
    served_by_all = int((run.group >= 0).sum())
    cold = np.zeros(run.stage_s.shape, dtype=bool)
    for stage in range(2):
        rows = np.argsort(run.stage_start[:, stage])[:served_by_all]
        idle = run.stage_start[rows[1:], stage] - (run.stage_start + run.stage_s)[rows[:-1], stage]
        cold[rows[1:], stage] = idle >= 0.02
        cold[rows[0], stage] = True
    assert 60 <= cold.sum() < served_by_all
    slow = replace(run, stage_s=np.where(cold, 1.1 * (run.stage_s + TURNAROUND) - TURNAROUND, run.stage_s))
    spread = in_service(session(), [slow], known()).profiles.variation.stages
    by_rest = dict(spread.rests)
    assert by_rest[0.02] / by_rest[0.0] == pytest.approx(1.1, abs=5e-3)
    assert by_rest[0.1] / by_rest[0.0] == pytest.approx(1.1, abs=5e-3)
    assert np.std(spread.paths) < 0.01  # 0.03 with rests left in it


def test_kinds_that_were_hardly_seen_take_the_level_of_the_others():
    run = served((1.2, 1.2))
    rare = replace(run, group=np.where(run.trace.model == 2, -1, run.group).astype(np.int32))
    found = in_service(session(), [rare], known()).profiles
    level = np.mean([(1.2 * s + TURNAROUND) / s for s in SECONDS["a-0"]])
    assert found["b-0"].latency(PIPELINE) == pytest.approx([level * s for s in SECONDS["b-0"]], rel=0.02)


def test_nothing_served_is_an_error_in_a_line():
    run = served()
    nobody = replace(run, group=np.full(len(run), -1, np.int32), finish=np.full(len(run), np.nan))
    with pytest.raises(ValueError, match="no request was served"):
        visits([nobody])


def test_other_requests_are_the_same_traffic_but_not_the_same_requests():
    trace = gamma(50.0, 4.0, 20.0, list(MODELS), slo={"a-0": 0.1, "a-1": 0.2, "b-0": 0.3}, seed=0)
    other = other_requests(trace, seed=4)
    assert len(other) == pytest.approx(len(trace), abs=2)
    assert not np.isin(other.arrival, trace.arrival).any()
    assert sorted(np.bincount(other.model, minlength=3)) == pytest.approx(sorted(np.bincount(trace.model)), abs=3)
    gaps_of = [np.sort(np.diff(t.arrival)) for t in (trace, other)]
    assert np.quantile(gaps_of[1], [0.5, 0.9, 0.99]) == pytest.approx(
        np.quantile(gaps_of[0], [0.5, 0.9, 0.99]), rel=0.1
    )
    assert [float(other.slo[other.model == m][0]) for m in range(3)] == [0.1, 0.2, 0.3]
    assert other_requests(trace, seed=4).arrival.tolist() == other.arrival.tolist()
    assert other_requests(trace, 4, seconds=5.0).duration <= 5.0
    assert other_requests(trace, 4, seconds=70.0).duration > 60.0


def test_cores_are_divided_into_ours_others_and_the_hosts():
    before, after = Snapshot(10.0, 1.0, 4.0, 100.0), Snapshot(20.0, 1.5, 12.0, 110.0)
    use = used_between(before, after, 2)
    assert (use.ours, use.others, use.stolen) == pytest.approx((0.4, 0.1, 0.025))
    assert used_between(None, after, 2) is NOT_KNOWN


def cell(plan, scale, draws, real):
    expected = Forecast(np.array(draws), 100)
    result = served()
    return Cell(plan, scale, expected, Attribution(expected.mean, real, 0.0, 0.0, real - expected.mean), result)


def test_a_comparison_counts_cells_inside_and_orders_of_plans():
    wide, narrow = np.linspace(0.5, 0.6, 101), np.linspace(0.7, 0.72, 101)
    cells = (cell("one", 1.0, narrow, 0.715), cell("other", 1.0, wide, 0.62), cell("other", 2.0, wide, 0.55))
    found = Comparison(cells, {}, None)
    assert [one.inside for one in cells] == [True, False, True]
    assert found.outside == (cells[1],)
    assert found.within
    assert found.orders == (1, 1)
    assert "2 of 3 real runs lie inside" in found.sentence()
    assert not Comparison((*cells, cell("other", 3.0, wide, 0.9)), {}, None).within
    assert cells[0].expected.half_width == pytest.approx(0.0095, abs=1e-3)


def test_an_end_of_the_interval_and_half_a_request_beyond_it_are_inside():
    one = Forecast(np.full(50, 0.5), 100)
    assert one.holds(0.504)
    assert not one.holds(0.506)
