"""The suite that is shipped: what it covers, that its baseline is today's, and that it sees what it should."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from meshwright import gate
from meshwright.planners import PLANNERS
from meshwright.planners.alpaserve import selection
from meshwright.planners.training import CONFIGURATION_SEARCH, TRAINING_PLANNERS
from meshwright.simulator.sharing import BASELINES
from meshwright.worlds.inference.solve import MEASURING
from meshwright.worlds.inference.solve import PLANNERS as INFERENCE_PLANNERS
from meshwright.worlds.serving.case import ServingCase

SUITE = gate.load_suite("standard")
BASELINE = gate.read_baseline(gate.default_baseline(SUITE), SUITE)


def test_serving_covers_planners_sizes_bursts_slos_and_ways_to_serve() -> None:
    cases = [cast(ServingCase, case.case) for case in SUITE.cases if case.world == "serving"]
    assert 28 <= len(cases) <= 40
    assert {case.planner.name for case in cases} == set(PLANNERS)
    devices = {case.cluster.devices for case in cases}
    assert {2, 4, 8, 16, 32, 64} <= devices
    assert {1.0, 2.0, 4.0, 8.0} <= {case.workload.cv for case in cases}
    scales = {case.workload.slo_scale or 5.0 for case in cases}
    assert min(scales) <= 2
    assert max(scales) >= 10
    assert {"shortest_queue", "earliest_finish", "earliest_free"} == {case.serving.dispatch for case in cases}
    assert {case.serving.max_batch > 1 for case in cases} == {True, False}
    assert {case.serving.admission for case in cases} == {True, False}
    assert any(case.workload.split != "uniform" for case in cases)
    assert {case.metric for case in SUITE.cases} >= {"attainment", "goodput", "mean_latency"}


def test_the_baseline_is_of_this_suite_and_says_why() -> None:
    assert list(BASELINE.cases) == [case.name for case in SUITE.cases]
    for case in SUITE.cases:
        assert BASELINE.cases[case.name].problem == case.problem()
    assert all(update.reason for update in BASELINE.updates)
    assert BASELINE.to_json() == gate.default_baseline(SUITE).read_text(encoding="utf-8")


def test_it_is_shipped() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["package-data"]["meshwright.gate"] == ["data/*"]
    assert gate.default_baseline(SUITE).parent.name == "data"


def test_most_cases_can_get_worse_and_better() -> None:
    """A case in which everything is attained, or nothing, sees nothing."""
    for world in ("serving", "llm"):
        judged = {case.name for case in SUITE.cases if case.world == world and case.metric == "attainment"}
        entries = [entry for name, entry in BASELINE.cases.items() if name in judged]
        means = [np.mean(entry.scores["attainment"]) for entry in entries if entry.decision is not None]
        assert len(means) >= 7
        assert sum(0.2 < mean < 0.999 for mean in means) >= 0.9 * len(means)
    stages = [len(e.decision["stages"]) for e in BASELINE.cases.values() if e.decision and "stages" in e.decision]
    assert sum(n > 1 for n in stages) >= 0.6 * len(stages)  # one stage alone says nothing of a pipeline


def test_it_covers_every_family_with_several_cases() -> None:
    """Whoever adds a planner adds cases for it: each one that comes with Meshwright plans at least one."""
    planners = Counter(case.planner for case in SUITE.cases)
    assert set(planners) >= {*PLANNERS, "vllm", *TRAINING_PLANNERS, CONFIGURATION_SEARCH, "themis", *BASELINES}
    assert set(planners) >= {*INFERENCE_PLANNERS} - {*MEASURING}  # those that measure plan otherwise each time
    for several in ("vllm", "alpa", "terapipe", "graphpipe", "pipedream", "piper", CONFIGURATION_SEARCH, "themis"):
        assert planners[several] >= 3
    assert {case.world for case in SUITE.cases} == {"serving", "llm", "training", "sharing", "inference"}
    assert sum(entry.decision is None for entry in BASELINE.cases.values()) >= 4  # that there is no plan is an answer


def test_its_baseline_can_be_reviewed() -> None:
    assert gate.default_baseline(SUITE).stat().st_size < 300_000


@pytest.fixture(scope="module")
def quick() -> gate.Suite:
    return SUITE.only(["fragments-*", "algorithm-1-beam", "round-robin", "clockwork-*", "dedicated-too-*"])


def test_our_planners_as_they_are_pass(quick: gate.Suite) -> None:
    report = gate.regress(quick, BASELINE, only=[case.name for case in quick.cases])
    assert report.ok, gate.text(report)
    assert len(report.cases) == len(quick.cases) == 8
    assert {case.status for case in report.cases} <= {"same", "equal", "better"}


def test_a_greedy_that_ignores_memory_fragmentation_is_caught(
    quick: gate.Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory counted in slots of the largest model: gaps that smaller ones would fill stay empty."""
    honest = selection.Room.free

    def slots(self: selection.Room, group: tuple[int, int]) -> int:
        config, held = group
        i = self._instance
        weights = i.weight[config][np.isfinite(i.weight[config]).all(axis=1)]
        return honest(self, group) if held.bit_count() < i.memory_bytes // weights.max() else 0

    monkeypatch.setattr(selection.Room, "free", slots)
    names = [case.name for case in quick.cases]
    report = gate.regress(quick, BASELINE, only=names)
    assert [case.case for case in report.failed] == [name for name in names if name.startswith("fragments")]
    for case in report.failed:
        assert [finding.kind for finding in case.findings] == ["worse"]
        assert "without any replica now" in case.plans


def test_a_greedy_that_ignores_memory_makes_invalid_plans(quick: gate.Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    def pooled(self: selection.Room, group: tuple[int, int]) -> int:
        """All memory of a group as one piece: what one stage lacks another has."""
        config, held = group
        i = self._instance
        weight = i.weight[config].sum(axis=1)
        used = sum(weight[m] for m in range(i.n_models) if held >> m & 1)
        fits = self._allowed & (used + weight <= i.memory_bytes * i.stages[config])
        return sum(1 << int(m) for m in np.flatnonzero(fits)) & ~held

    monkeypatch.setattr(selection.Room, "free", pooled)
    report = gate.regress(quick, BASELINE, only=["fragments-8-devices"])
    (finding,) = report.failed[0].findings
    assert finding.kind == "invalid"
    assert "GiB on each device" in finding.text


def test_cases_of_every_world_run_in_processes() -> None:
    """What their worlds share travels to workers, and back come the same answers."""
    names = ["dedicated-too-few-devices", "vllm-no-room", "pipedream-no-room", "graphpipe-branches", "fifo"]
    report = gate.regress(SUITE.only(names), BASELINE, only=names, workers=2)
    assert report.ok, gate.text(report)
    assert {case.status for case in report.cases} == {"same"}


def test_a_case_without_a_plan_stays_without() -> None:
    entry = BASELINE.cases["dedicated-too-few-devices"]
    assert entry.decision is None
    assert "need at least 32 devices" in entry.infeasible
