"""examples/own_sharing_policy.py: it runs, and its policy keeps what it promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from meshwright.simulator.sharing import App, Level, SharedCluster, SharingWorld, simulate

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/own_sharing_policy.py"


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    made = runpy.run_path(str(EXAMPLE))
    ours, theirs = made["compared"]()
    cluster = ours.world.cluster
    assert all(cluster.level(grant.gpus) <= Level.RACK for grant in ours.grants)
    assert any(cluster.level(grant.gpus) == Level.CLUSTER for grant in theirs.grants)  # else it would show nothing
    assert ours.completed.all()
    assert ours.placed[:, Level.CLUSTER].sum() == 0


def test_least_served_first_and_never_less_than_a_gang() -> None:
    # Two racks of two GPUs. The pair's two tasks take one rack, the other app takes the other; a gang of three never
    # runs, for no rack holds it, and that is an error with its name.
    policy = runpy.run_path(str(EXAMPLE))["OneRack"]()
    cluster = SharedCluster.uniform(2, 2, machines_per_rack=1)
    apps = (App.single("pair", 0.0, 100.0, gpus=4, gang=2), App.single("other", 0.0, 50.0, gpus=1))
    result = simulate(SharingWorld(cluster, apps, checkpoint_s=0.0, container_s=0.0), policy, engine="simpy")
    assert [(grant.app, grant.gpus) for grant in result.grants[:2]] == [(0, (0, 1)), (1, (2,))]
    assert result.finish.tolist() == pytest.approx([50, 50])
    wide = SharingWorld(cluster, (App.single("wide", 0.0, 100.0, gpus=3, gang=3),))
    with pytest.raises(Exception, match=r"app 'wide'.*has not ended"):
        simulate(wide, policy, engine="simpy")
