"""What the gate's statistics promise: false alarms as often as the confidence says, and the rules at their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshwright import traces
from meshwright.gate import BaselineCase, CaseReport, CaseRun, SuiteCase, judge
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Group, Placement, simulate
from meshwright.worlds.serving.case import ServingCase

ONE = ParallelConfig(1, 1)
METRICS = ("attainment", "goodput", "mean_latency", "p50_latency", "p99_latency")


def decision(*models: str) -> Any:
    groups = [{"config": "op1pp1", "devices": [0], "models": list(models)}]
    return {"windows": [{"start": 0.0, "groups": groups}], "schedule": False, "carry": False}


def case(**said: Any) -> SuiteCase:
    planned = ServingCase.model_validate({"cluster": {"devices": 1}, "workload": {"rate": 1.0}})
    return SuiteCase("c", "serving", planned, **{"replications": 5, **said})


def held(
    before: Any, now: Any, metric: str = "attainment", evaluations: tuple[int, int] = (10, 10), **said: Any
) -> CaseReport:
    """A case whose scores were `before` and are `now`."""
    asked = case(replications=len(before), metric=metric, **said)
    old, new = (
        {name: tuple(values) if name in (metric, "attainment") else (1.0,) * len(values) for name in METRICS}
        for values in (before, now)
    )
    if metric != "attainment":
        old["attainment"] = new["attainment"] = (0.5,) * len(before)
    entry = BaselineCase(
        problem=asked.problem(), planner="p", decision=decision("a"), evaluations=evaluations[0], scores=old
    )
    run = CaseRun("c", "p", decision("b"), evaluations[1], new, baseline_scores=old)
    return judge(asked, run, entry)


@pytest.mark.parametrize("pairs", [3, 10])
def test_false_alarms_are_as_frequent_as_promised(pairs: int) -> None:
    """No tolerance, no real difference: worse in (1 - confidence) / 2 of all cases."""
    rng = np.random.default_rng(pairs)
    trials, share = 1500, 0.05
    alarms = 0
    for _ in range(trials):
        common = rng.uniform(0.4, 0.8, pairs)
        before, now = common + rng.normal(0, 0.01, (2, pairs))
        alarms += held(before.tolist(), now.tolist(), tolerance=0.0, confidence=1 - 2 * share).status == "failed"
    assert abs(alarms - share * trials) < 4 * (share * (1 - share) * trials) ** 0.5


def test_false_alarms_on_random_plans_of_one_quality() -> None:
    """Equal models, equally busy, dealt to devices at random: no deal is better, though each trace likes some more.

    The default tolerance and confidence let nearly all of them pass; 90 % without tolerance do as it says.
    """
    names = [f"m-{i}" for i in range(6)]
    profile = {n: ModelProfile.from_stages(n, {ONE: {1: [0.1]}}, {ONE: [1e9]}) for n in names}
    rng = np.random.default_rng(7)
    trials, alarms, noise = 120, 0, 0
    for trial in range(trials):
        deals = [rng.permutation(names).tolist() for _ in range(2)]
        places = [Placement([Group(ONE, deal[g::3]) for g in range(3)]) for deal in deals]
        scores: list[list[float]] = [[], []]
        for r in range(6):
            trace = traces.gamma(rate=18.0, cv=3.0, duration=40.0, models=names, slo=0.4, seed=1000 * trial + r)
            for column, place in zip(scores, places, strict=True):
                column.append(simulate(place, trace, profile).attainment)
        alarms += held(*scores, tolerance=0.0, confidence=0.9).status != "equal"
        noise += held(*scores).status == "failed"
    assert alarms < 0.1 * trials + 4 * (0.09 * trials) ** 0.5
    assert noise <= 4


def test_a_small_real_loss_is_found_by_pairing() -> None:
    """A loss of 1 point under noise of 10 points between traces: pairs see it, means alone would not."""
    rng = np.random.default_rng(0)
    common = rng.uniform(0.5, 0.9, 10)
    found = held(common.tolist(), (common - 0.01 + rng.normal(0, 0.002, 10)).tolist())
    assert [f.kind for f in found.findings] == ["worse"]
    assert float(np.std(common)) > 0.1


def test_one_exact_score_is_held_to_the_tolerance_alone() -> None:
    """Where nothing is drawn there is one score; a difference beyond the tolerance is one."""
    assert held([0.9], [0.8949]).status == "failed"
    assert held([0.9], [0.8951]).status == "equal"
    (said,) = held([0.5], [0.4]).findings
    assert said.text == "attainment 50.00 → 40.00 %: -10.00 points, one exact score, tolerance 0.50"


def test_a_suite_may_turn_the_direction() -> None:
    assert held([0.5] * 5, [0.4] * 5, better="less").status == "better"
    assert held([0.5] * 5, [0.6] * 5, better="less").status == "failed"


def test_a_difference_without_variance_counts() -> None:
    assert held([0.9] * 5, [0.89] * 5).status == "failed"
    assert held([0.9] * 5, [0.91] * 5).status == "better"
    assert held([0.9] * 5, [0.9] * 5).status == "equal"


def test_the_tolerance_is_of_attainment_as_it_is_and_of_others_relative() -> None:
    assert held([0.9] * 5, [0.8951] * 5).status == "equal"
    assert held([0.9] * 5, [0.8949] * 5).status == "failed"
    assert held([200.0] * 5, [199.1] * 5, "goodput").status == "equal"
    assert held([200.0] * 5, [198.9] * 5, "goodput").status == "failed"


def test_less_latency_is_better() -> None:
    assert held([0.2] * 5, [0.1] * 5, "mean_latency").status == "better"
    assert held([0.1] * 5, [0.2] * 5, "mean_latency").status == "failed"


def test_attainment_is_always_compared() -> None:
    asked = case(metric="mean_latency")
    old = dict.fromkeys(METRICS, (0.5,) * 5)
    entry = BaselineCase(problem=asked.problem(), planner="p", decision=decision("a"), scores=old)
    new = old | {"attainment": (0.3,) * 5, "mean_latency": (0.1,) * 5}
    found = judge(asked, CaseRun("c", "p", decision("b"), 0, new, baseline_scores=old), entry)
    assert found.status == "failed"
    assert found.findings[0].text.startswith("attainment 50.00 → 30.00 %")
    assert any(note.startswith("better: mean latency") for note in found.notes)


def test_an_objective_that_lost_its_value_fails() -> None:
    found = held([0.2] * 5, [0.2, 0.2, None, 0.2, 0.2], "mean_latency")
    assert found.status == "failed"
    assert "mean_latency has no value in 1 of 5 replications" in found.findings[0].text


@pytest.mark.parametrize(
    ("before", "now", "factor", "status"),
    [(100, 150, 1.5, "equal"), (100, 151, 1.5, "failed"), (0, 1, 1.5, "failed"), (0, 0, 1.5, "equal"),
     (100, 10**9, None, "equal"), (100, 40, 1.5, "equal"), (100, 199, 2.0, "equal")],
)  # fmt: skip
def test_evaluations(before: int, now: int, factor: float | None, status: str) -> None:
    assert held([0.5] * 5, [0.5] * 5, evaluations=(before, now), evaluations_factor=factor).status == status


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=12),
    st.floats(0, 0.2),
    st.floats(0.5, 0.999),
)
def test_a_failure_always_means_what_it_says(
    pairs: list[tuple[float, float]], tolerance: float, confidence: float
) -> None:
    """Worse exactly where the interval lies below zero and the mean beyond the tolerance; never both ways round."""
    before, now = map(list, zip(*pairs, strict=True))
    there = held(before, now, tolerance=tolerance, confidence=confidence)
    back = held(now, before, tolerance=tolerance, confidence=confidence)
    (d,) = there.differences
    assert (there.status == "failed") == (d.change.high < 0 and -d.change.mean > tolerance)
    assert (there.status == "failed") == (back.status == "better")
    assert d.change.mean == pytest.approx(np.mean(np.subtract(now, before)))
