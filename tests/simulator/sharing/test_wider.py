"""Apps that could use more GPUs than the cluster has: T_id counts the cluster's, and so does everybody who asks."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from meshwright.planners.themis import Themis, bid_of, current_rho
from meshwright.seeds import generator
from meshwright.simulator.sharing import (
    BASELINES,
    App,
    AppView,
    Convention,
    Job,
    Phase,
    Policy,
    SharedCluster,
    SharingResult,
    SharingWorld,
    Slowdown,
    baseline,
    simulate,
)
from meshwright.simulator.sharing.policy.split import RunningJob

FLAT = Slowdown(1.0, 1.0, 1.0, 1.0)
Engine = Literal["simpy", "compiled"]
WIDTHS = [(9,), (4,), (3, 3), (40, 40)]


def named(name: str) -> Policy:
    return Themis(fairness=0.5) if name == "themis" else baseline(name)


@pytest.mark.parametrize("width", [4, 5, 64])
@pytest.mark.parametrize("convention", ["fluid", "slowest"])
def test_an_agent_reckons_with_the_clusters_gpus(width: int, convention: Convention) -> None:
    """Two apps on average, 600 GPU seconds, 4 GPUs: T_id is 2 · 600/4; with all four after 50 s 1/ρ is 300/(50 + 150).
    A bid and what it is ranked by say the same."""
    cluster = SharedCluster.uniform(1, 4)
    app = App.single("wide", 0.0, 600.0, gpus=width, slowdown=FLAT)
    job = RunningJob(0, 600.0, width, 1)
    view = AppView(0, app, 50.0, 0, (job,), (), (0, 1, 2, 3), 0.0, 2.0, 4, convention)
    assert view.ideal_s == 300.0
    assert current_rho(cluster, view) == pytest.approx(200 / 300)
    bid = bid_of(cluster, range(4), view)
    for n in range(1, 5):
        rho = min(row.rho for row in bid.rows if row.gpus == n)
        assert rho == pytest.approx((50.0 + 600.0 / n) / 300.0)


def alone(engine: Engine, convention: Convention, widths: tuple[int, ...], names: tuple[str, ...]) -> None:
    """Jobs of equal work on a cluster of four: W/4 seconds whatever they could use beyond it. T_id is W/4 too."""
    jobs = tuple(Job(2.0, w) for w in widths)
    app = App("wide", 5.0, jobs, (Phase(tuple(range(len(jobs))), (240.0 / len(jobs),) * len(jobs)),), "jobs", FLAT)
    world = SharingWorld(SharedCluster.uniform(2, 2), (app,), checkpoint_s=0.0, container_s=0.0, convention=convention)
    for name in names:
        result = simulate(world, named(name), engine=engine)
        assert result.finish[0] == pytest.approx(5.0 + 480.0 / 4), name
        assert result.rho.tolist() == pytest.approx([1.0]), name


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize("convention", ["fluid", "slowest"])
@pytest.mark.parametrize("widths", WIDTHS)
def test_alone_on_all_gpus_rho_is_one(engine: Engine, convention: Convention, widths: tuple[int, ...]) -> None:
    """Auctions in the model only: their kernels take minutes to compile, and read the same T_id as finish-time's."""
    alone(engine, convention, widths, (*BASELINES, "themis") if engine == "simpy" else BASELINES)


def worlds(seed: int) -> tuple[SharingWorld, SharingWorld]:
    """Apps that can use the whole cluster, and the same apps that could use several of it."""
    rng = generator(seed, "wider")
    cluster = SharedCluster.uniform(2, 3, gpus_per_slot=1, machines_per_rack=1)
    arrivals = np.cumsum(rng.exponential(150.0, 7)).tolist()
    works, more = rng.uniform(300.0, 6000.0, 7).tolist(), rng.integers(1, 40, 7).tolist()
    made = []
    for extra in ([0] * 7, more):
        apps = tuple(
            App.single(f"a{k}", at, work, gpus=6 + x, slowdown=Slowdown())
            for k, (at, work, x) in enumerate(zip(arrivals, works, extra, strict=True))
        )
        made.append(SharingWorld(cluster, apps, lease_s=120.0, checkpoint_s=3.0, container_s=10.0))
    return made[0], made[1]


@pytest.mark.parametrize(
    ("engine", "name"), [(e, n) for e in ("simpy", "compiled") for n in BASELINES] + [("simpy", "themis")]
)
def test_what_an_app_could_use_beyond_the_cluster_changes_nothing(engine: Engine, name: str) -> None:
    """Neither who gets what nor how fair it was."""
    for seed in range(2):
        results: list[SharingResult] = [simulate(w, named(name), engine=engine) for w in worlds(seed)]
        just, wide = results
        for column in ("start", "finish", "gpu_seconds", "contention", "rho"):
            np.testing.assert_allclose(getattr(wide, column), getattr(just, column), rtol=1e-12, err_msg=column)
        assert wide.grants == just.grants
