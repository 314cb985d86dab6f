"""Plans as they stand, held against runs of them. Structure only, never seconds."""

import pytest
from meshwright.errors import InputError
from meshwright.planners.training import training_planner
from meshwright.profiles.graph import zoo_graph
from meshwright.runtime.training.compare.as_planned import AsPlanned, PlannedRow, compare_as_planned
from meshwright.simulator import Cluster
from meshwright.simulator.training import simulate_training

pytest.importorskip("torch", reason="running needs torch")


def test_every_plan_is_run_and_held_against_its_own_times(session):
    graph = zoo_graph("tiny-mlp")
    plans = {
        name: training_planner(name)(graph, Cluster(1, 2, "cpu-core"), global_batch=8, microbatches=2)
        for name in ("inter-only", "data")
    }
    found = compare_as_planned(plans, dict.fromkeys(plans, graph), rounds=1, iterations=2, session=session)
    assert [row.name for row in found.rows] == list(plans)
    for row in found.rows:
        assert row.planned_s == simulate_training(plans[row.name]).seconds
        assert row.source == plans[row.name].cost_source
        assert row.measured_s > 0


def test_it_is_right_within_the_bar_alone():
    near, far = (PlannedRow("a plan", 1.0, s, 0.99, "roofline") for s in (1.04, 1.06))
    assert near.difference == pytest.approx(1 / 1.04 - 1)
    assert AsPlanned((near,)).right
    assert not AsPlanned((near, far)).right
    assert "largest difference 5.7%, order as measured" in str(AsPlanned((near, far)))


def test_no_plans_are_refused():
    with pytest.raises(InputError, match="expected plans"):
        compare_as_planned({}, {})
