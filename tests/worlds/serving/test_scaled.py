"""Serving cases whose groups are started and given back by load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.worlds.serving.case import ServingCase
from meshwright.worlds.serving.load import load_data
from meshwright.worlds.serving.measures import measures
from meshwright.worlds.serving.solve import Solved, solve

RULE = {"least": 1, "by": "utilization", "up": 0.7, "down": 0.3, "every": 2, "hold": 10}


def case(**said: Any) -> ServingCase:
    base = {
        "models": {"bert-1.3b": 1}, "cluster": {"devices": 4}, "planner": {"name": "selective-replication"},
        "workload": {"rate": 8.0, "cv": 2.0, "duration": 90.0, "slo_scale": 8},
    }  # fmt: skip
    return ServingCase.model_validate(base | said)


def solved(one: ServingCase) -> Solved:
    return solve(one, load_data([one], Path()))


def test_what_scaling_saves_and_what_loading_costs() -> None:
    plain = measures(solved(case()))[0]
    at_once = measures(solved(case(scaling=RULE)))[0]
    loaded = measures(solved(case(scaling=RULE, loading={"disk": "200 MB/s"})))[0]
    assert "device_hours" not in plain
    assert 1 <= at_once["mean_devices"] < 4
    assert loaded["attainment"] < at_once["attainment"] <= plain["attainment"]
    everything = measures(solved(case(scaling=RULE | {"least": 4})))[0]
    assert everything["mean_devices"] == 4.0
    assert everything["attainment"] == plain["attainment"]


def test_loading_takes_weights_over_bandwidth() -> None:
    one = case(scaling=RULE, loading={"disk": "1 GB/s", "start": 2})
    found = solved(one)
    uses = found.result.uses
    assert uses is not None
    started = next(use for use in uses if use.from_s > 0 and use.serves_s < float("inf"))
    group = found.plan.placement.groups[started.group]  # type: ignore[union-attr]
    weights = max(group.memory_bytes(found.problem.profiles))
    assert started.serves_s - started.from_s == pytest.approx(2 + weights / 1e9)


def test_a_plan_is_shared_by_all_rules_and_has_fewer_groups_than_least() -> None:
    rich = solved(case(scaling=RULE | {"least": 100}))
    assert rich.result.uses is not None
    assert len(rich.result.uses) == 4
    assert rich.plan is solved(case()).plan


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"least": 0, "up": 1, "down": 0}, "greater than or equal to 1"),
        ({"least": 1}, "least: needs up and down"),
        ({"least": 1, "up": 1}, "least: needs up and down"),
        ({"up": 1}, "up: needs least"),
        ({"hold": 3}, "hold: needs least"),
        ({"least": 1, "up": 1, "down": 1}, "down: expected a load below up 1"),
        ({"least": 1, "up": 1, "down": 0, "every": 0}, "greater than or equal to 0.001"),
        ({"least": 1, "up": 1, "down": 0, "by": "hope"}, "'outstanding' or 'utilization'"),
    ],
)
def test_bad_sections_are_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        case(scaling=said)


def test_what_does_not_go_together_is_refused() -> None:
    for other, named in (
        ({"failures": {"mtbf": 10, "mttr": 1}}, "failures"),
        ({"loading": {"disk": 1e9, "cold": True}}, "loading.cold"),
    ):
        with pytest.raises(InputError, match=f"scaling.least: cannot be combined with {named}; leave one of them out"):
            solved(case(scaling=RULE, **other))
    with pytest.raises(InputError, match="scaling: is of the groups of one placement"):
        solved(case(scaling=RULE, planner={"name": "clockwork++"}))
