"""Statistics on a study's frame: against scipy, with gaps, and in the order of the design."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright import studies
from meshwright.errors import InputError
from meshwright.simulator.metrics import mean_interval, paired_difference
from meshwright.studies.summary import best, differences, metric_columns, summarise
from scipy import stats

STUDY = """
study: 1
name: numbers
cluster: {devices: 2}
models: {bert-1.3b: 2}
workload: {rate: 5, duration: 30}
planners: [selective-replication, alpaserve]
axes: {rate: [9, 5], devices: [2, 4]}
replications: 4
confidence: 0.9
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> studies.Study:
    path = tmp_path_factory.mktemp("study") / "study.yaml"
    path.write_text(STUDY)
    return studies.load(path)


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A frame as `Session.frame` makes it."""
    plain = {"status": "ok", "notes": "", "decision": "", "error": ""}
    return pd.DataFrame([plain | row for row in rows])


def grid(study: studies.Study, value: Any) -> pd.DataFrame:
    """A frame of the design; `value(point)` gives its metrics."""
    return frame_of(
        [{**dict(p.values), "planner": p.planner, "replication": p.replication, **value(p)} for p in study.points()]
    )


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=8), confidence=st.sampled_from([0.5, 0.9, 0.95, 0.99])
)
def test_intervals_are_scipys(study: studies.Study, values: list[float], confidence: float) -> None:
    from dataclasses import replace

    rows = [{"workload.rate": 1 + k % 2, "planner": "a", "replication": k // 2, "x": v} for k, v in enumerate(values)]
    table = summarise(frame_of(rows), replace(study, confidence=confidence))
    for k in (0, 1):
        mine = np.array(values[k::2])
        spread = stats.sem(mine)
        low, high = stats.t.interval(confidence, 3, loc=mine.mean(), scale=spread) if spread > 0 else (mine.mean(),) * 2
        assert table["x"][k] == pytest.approx(mine.mean(), abs=1e-9)
        assert table["x_half_width"][k] == pytest.approx((high - low) / 2, rel=1e-9, abs=1e-6)
        assert table["x_half_width"][k] == pytest.approx(mean_interval(mine, confidence).half_width, rel=1e-9, abs=1e-9)


def test_rows_stand_in_the_order_of_the_design(study: studies.Study) -> None:
    table = summarise(grid(study, lambda p: {"attainment": 0.5}), study)
    assert list(table["workload.rate"]) == [9, 9, 9, 9, 5, 5, 5, 5]
    assert list(table["cluster.devices"]) == [2, 2, 4, 4] * 2
    assert list(table["planner"]) == ["selective-replication", "alpaserve"] * 4
    assert list(table.columns[:3]) == ["workload.rate", "cluster.devices", "planner"]
    assert (table["replications"] == 4).all()
    assert (table["attainment_half_width"] == 0).all()


def test_points_without_a_plan_are_counted_and_not_averaged(study: studies.Study) -> None:
    status = ["ok", "infeasible", "failed", "ok"]
    rows = [
        {"planner": "a", "replication": r, "status": s, "attainment": 0.5 + r if s == "ok" else np.nan}
        for r, s in enumerate(status)
    ]
    (row,) = summarise(frame_of(rows), study).to_dict("records")
    assert (row["replications"], row["infeasible"], row["failed"]) == (4, 1, 1)
    assert row["attainment"] == 2.0
    assert row["attainment_half_width"] == pytest.approx(mean_interval([0.5, 3.5], 0.9).half_width)
    assert (
        row["notes"] == "1 of 4 replications infeasible, not in the means; 1 of 4 replications failed, not in the means"
    )


def test_a_metric_that_some_replications_lack_is_said(study: studies.Study) -> None:
    notes = ["p99_latency refused: needs 10000, there are 9", "p99_latency refused: needs 10000, there are 8", "", ""]
    notes[3] = "unstable: utilisation 1.2 on group 3; the mean grows with the horizon"
    rows = [
        {"planner": "a", "replication": r, "p99_latency": np.nan if r < 2 else 1.0 + r, "notes": n}
        for r, n in enumerate(notes)
    ]
    (row,) = summarise(frame_of(rows), study).to_dict("records")
    assert row["p99_latency"] == 3.5
    assert row["notes"] == (
        "some replications lack a metric: p99_latency in 2 of 4; "
        "p99_latency refused: needs 10000, there are 9 (2 of 4 replications); "
        "unstable: utilisation 1.2 on group 3; the mean grows with the horizon (1 of 4 replications)"
    )


def test_one_replication_has_a_mean_and_no_interval(study: studies.Study) -> None:
    (row,) = summarise(frame_of([{"planner": "a", "replication": 0, "x": 3}]), study).to_dict("records")
    assert row["x"] == 3
    assert np.isnan(row["x_half_width"])


def test_lists_and_what_is_missing_are_values_too(study: studies.Study) -> None:
    splits: list[Any] = [[0.5, 0.5], {"power_law": 0.5}, None, [0.5, 0.5]]
    rows = [{"workload.split": s, "planner": "a", "replication": r, "x": r} for r, s in enumerate(splits)]
    table = summarise(frame_of(rows), study)
    assert list(table["workload.split"])[:2] == splits[:2]
    assert list(table["replications"]) == [2, 1, 1]
    assert list(table["x"]) == [1.5, 1, 2]


def test_differences_pair_the_same_replications(study: studies.Study) -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, (4, 4))  # shared by the planners: common random numbers
    shift = {"alpaserve": 0.25, "selective-replication": 0.0}

    def value(p: studies.Point) -> dict[str, float]:
        at = [(9, 2), (9, 4), (5, 2), (5, 4)].index(tuple(v for _, v in p.values))
        return {"attainment": noise[at, p.replication] + shift[p.planner] + 0.01 * (p.replication % 2)}

    table = differences(grid(study, value), study)
    assert list(table["planner"]) == ["alpaserve"] * 4
    assert list(table["workload.rate"]) == [9, 9, 5, 5]
    assert set(table["baseline"]) == {"selective-replication"}
    assert np.allclose(table["difference"], 0.25)
    assert (table["pairs"] == 4).all()
    assert table["differs"].all()
    assert (table["variance_reduction"].dropna() > 1e6).all()


def test_differences_leave_out_what_one_side_lacks(study: studies.Study) -> None:
    mine, theirs = [1.0, 2.0, 5.0, 7.0], [0.5, np.nan, 2.0, 1.0]
    rows = [{"planner": "alpaserve", "replication": r, "x": v} for r, v in enumerate(mine)]
    rows += [
        {"planner": "selective-replication", "replication": r, "x": v, "status": "ok" if v == v else "infeasible"}
        for r, v in enumerate(theirs)
    ]
    shuffled = frame_of(rows).sample(frac=1, random_state=3, ignore_index=True)
    (row,) = differences(shuffled, study, "x").to_dict("records")
    expected = paired_difference([1, 5, 7], [0.5, 2, 1], 0.9)
    assert (row["difference"], row["half_width"]) == pytest.approx((expected.mean, expected.half_width))
    assert (row["pairs"], row["left_out"]) == (3, 1)
    assert row["notes"] == "1 of 4 replications left out: one side has no figure"
    nothing = differences(frame_of([r | {"status": "failed"} for r in rows]), study, "x")
    assert nothing["pairs"].tolist() == [0]
    assert not nothing["differs"].any()


def test_an_unknown_metric_names_the_nearest(study: studies.Study) -> None:
    frame = grid(study, lambda p: {"attainment": 1.0, "goodput": 2.0})
    assert metric_columns(frame, study) == ["attainment", "goodput"]
    with pytest.raises(InputError, match="unknown metric 'atainment'; did you mean 'attainment'"):
        differences(frame, study, "atainment")


def test_the_best_point_has_a_plan_in_every_replication_and_few_devices(study: studies.Study) -> None:
    def value(p: studies.Point) -> dict[str, Any]:
        rate, devices = (v for _, v in p.values)
        if p.planner == "alpaserve" and rate == 9 and p.replication == 1:
            return {"status": "infeasible"}
        return {"attainment": 1.0 if rate == 9 and p.planner == "alpaserve" else 0.9, "devices": devices}

    frame = grid(study, value)
    point = best(frame, study)
    assert point is not None
    assert (dict(point.values), point.planner) == (
        {"workload.rate": 9, "cluster.devices": 2}, "selective-replication",
    )  # fmt: skip
    assert study.case(point).workload.rate == 9  # type: ignore[attr-defined]
    assert best(frame.assign(status="failed"), study) is None


def test_a_real_study_is_summarised(study: studies.Study) -> None:
    """What `Study.run` gives is what is summarised: every metric has its mean, by hand and by group."""
    frame = study.run()
    table = summarise(frame, study)
    by_hand = frame.groupby(["workload.rate", "cluster.devices", "planner"], sort=False)[metric_columns(frame, study)]
    assert len(table) == len(study) / 4
    for name in ("attainment", "goodput", "utilization"):
        assert np.allclose(table[name], by_hand.mean()[name])
    assert json.loads(differences(frame, study).to_json(orient="records"))


def test_nothing_planned_at_all_is_a_table_of_counts(study: studies.Study) -> None:
    frame = grid(study, lambda p: {"status": "infeasible", "error": "fits nowhere"})
    table = summarise(frame, study)
    assert (table["infeasible"] == 4).all()
    assert set(table.columns) == {
        "workload.rate", "cluster.devices", "planner", "replications", "infeasible", "failed", "notes",
    }  # fmt: skip
    assert (differences(frame, study)["pairs"] == 0).all()
    assert best(frame, study) is None


def test_the_best_point_is_a_valid_one_where_a_column_has_gaps(study: studies.Study) -> None:
    """Whole numbers beside missing ones are floats to pandas; a case takes them for whole again."""
    rows = [{"cluster.devices": d, "planner": "alpaserve", "replication": 0, "attainment": d or 9} for d in (None, 2)]
    point = best(frame_of([rows[1] | {"attainment": 10}, rows[0]]), study)
    assert point is not None
    assert study.case(point).cluster.devices == 2  # type: ignore[attr-defined]


def test_of_equally_good_points_the_best_is_the_one_with_fewest_devices(study: studies.Study) -> None:
    """Whatever their order."""
    for sizes in ((2, 4, 8), (8, 4, 2), (4, 8, 2)):
        rows = [
            {"cluster.devices": n, "workload.rate": 3, "planner": "alpaserve", "replication": 0, "attainment": 0.9,
             "n_devices": n}
            for n in sizes
        ]  # fmt: skip
        point = best(frame_of(rows), study)
        assert point is not None
        assert dict(point.values)["cluster.devices"] == 2
