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


def test_who_ran_loads_again_after_a_failure() -> None:
    loading = {"disk": "2 GB/s"}
    script = [{"at": 30, "device": 0, "for": 7}]
    found = solved(case(scaling=RULE, loading=loading, failures={"script": script}))
    group = next(g for g, one in enumerate(found.plan.placement.groups) if 0 in one.devices)  # type: ignore[union-attr]
    uses = [use for use in found.result.uses or () if use.group == group]
    failed = next(i for i, use in enumerate(uses) if use.until_s == 30)
    load_s = max(found.plan.placement.groups[group].memory_bytes(found.problem.profiles)) / 2e9  # type: ignore[union-attr]
    assert uses[failed + 1][:3] == (group, 37, pytest.approx(37 + load_s))
    there = found.result.start[found.result.group == group]
    assert (there < 30).any()
    assert not ((there >= 30) & (there < 37 + load_s)).any()
    assert found.result.engine == "compiled"


def test_groups_that_begin_cold_load_first() -> None:
    found = solved(case(scaling=RULE, loading={"disk": "1 GB/s", "cold": True}))
    weights = max(found.plan.placement.groups[0].memory_bytes(found.problem.profiles))  # type: ignore[union-attr]
    assert (found.result.uses or ())[0][:3] == (0, 0, pytest.approx(weights / 1e9))
    assert found.result.rejected[found.result.trace.arrival < weights / 1e9].all()


def test_a_plan_that_changes_its_placement_is_refused() -> None:
    with pytest.raises(InputError, match=r"scaling.* of the groups of one placement"):
        solved(case(scaling=RULE, planner={"name": "clockwork++"}))
