"""The same seed gives the same world and the same decisions: twice, and in a process that hashes text otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from meshwright.simulator.sharing import (
    BASELINES,
    SharingWorld,
    WorkloadOptions,
    baseline,
    simulate,
    themis_testbed,
    workload1,
    workload2,
)

SCRIPT = """
import json
from meshwright.simulator.sharing import SharingWorld, WorkloadOptions, baseline, simulate, themis_testbed, workload2

apps = workload2(WorkloadOptions(seed=9, apps=4, scale=0.002, span_s=3600.0, error=0.1, network_intensive=0.5))
world = SharingWorld(themis_testbed(), apps)
ends = [
    simulate(world, baseline(name, placement="blind", seed=4), engine="simpy").finish.tolist()
    for name in ("tiresias", "optimus", "slaq")
]
print(json.dumps([[a.model for a in apps], [a.believed_work for a in apps], ends]))
"""


def test_another_process_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=300,
        env={**os.environ, "PYTHONHASHSEED": other},
    )  # fmt: skip
    exec(compile(SCRIPT, "the script", "exec"), {})
    assert json.loads(done.stdout) == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", BASELINES)
def test_a_policy_object_may_serve_twice(name: str) -> None:
    """It forgets between two worlds: by lot too, which count decisions."""
    apps = workload1(WorkloadOptions(seed=2, apps=3, scale=0.001, span_s=1800.0))
    world = SharingWorld(themis_testbed(), apps)
    policy = baseline(name, placement="blind", seed=1)
    first, second = (simulate(world, policy, engine="simpy") for _ in range(2))
    assert first.grants == second.grants
    other = simulate(world, baseline(name, placement="blind", seed=2), engine="simpy")
    assert [g.gpus for g in other.grants] != [g.gpus for g in first.grants]


@pytest.mark.parametrize("make", [workload1, workload2])
def test_seeds_of_workloads(make) -> None:  # type: ignore[no-untyped-def]
    first, second, other = (make(WorkloadOptions(seed=s, apps=5)) for s in (0, 0, 1))
    assert first == second
    assert [a.arrival_s for a in first] != [a.arrival_s for a in other]
    assert [a.total_work_s for a in first] != [a.total_work_s for a in other]
