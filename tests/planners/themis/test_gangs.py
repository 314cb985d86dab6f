"""Leftovers of an auction: an app gets no GPUs that its gangs leave over."""

from __future__ import annotations

import pytest
from meshwright.planners.themis import Themis
from meshwright.simulator.sharing import App, Job, Phase, SharedCluster, SharingWorld, Slowdown, simulate

FLAT = Slowdown(1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_leftovers_are_what_gangs_can_use(engine: str) -> None:
    """Six GPUs: the first app bids and wins one; of five that are left three pairs can use four, and the last app the
    fifth, whoever is drawn first."""
    pairs = App("pairs", 0.0, (Job(1.0, 2, 2),) * 3, (Phase((0, 1, 2), (200.0,) * 3),), "jobs", FLAT)
    apps = (App.single("a", 0.0, 50.0, slowdown=FLAT), pairs, App.single("b", 0.0, 50.0, slowdown=FLAT))
    world = SharingWorld(SharedCluster.uniform(1, 6), apps, checkpoint_s=0.0, container_s=0.0)
    for seed in range(8):
        result = simulate(world, Themis(seed=seed), engine=engine)  # type: ignore[arg-type]
        assert result.start.tolist() == [0.0, 0.0, 0.0]
        assert (result.finish[0], result.finish[2]) == (50.0, 50.0)
