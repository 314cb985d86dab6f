"""The compiled engine gives the same starts, finishes and grants as the SimPy model, on drawn worlds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.seeds import generator
from meshwright.simulator.sharing import (
    BASELINES,
    App,
    AppFailure,
    Greedy,
    Job,
    LossCurve,
    Machine,
    MachineFailure,
    Phase,
    SharedCluster,
    SharingResult,
    SharingWorld,
    Slowdown,
    baseline,
    simulate,
)
from meshwright.simulator.sharing.nearness import PLACEMENTS, Placement


def drawn(seed: int, n: int = 8) -> SharingWorld:
    """Apps of all kinds, gangs, ties of arrivals, machines of all sizes, failures."""
    rng = generator(seed, "sharing world")
    machines = tuple(
        Machine(int(rng.integers(1, 5)), int(rng.integers(1, 3)), int(rng.integers(0, 3)))
        for _ in range(int(rng.integers(3, 8)))
    )
    apps: list[App] = []
    at = 0.0
    for i in range(n):
        at += float(rng.exponential(200.0)) * (rng.random() < 0.8)
        jobs: list[Job] = []
        for _ in range(int(rng.integers(1, 6))):
            gpus = int(rng.integers(1, 5))
            gang = int(rng.integers(1, gpus + 1)) if rng.random() < 0.3 else 1
            loss = LossCurve(1.0, float(rng.uniform(0, 0.5)), float(rng.uniform(1, 6)))
            jobs.append(Job(float(rng.uniform(2, 60)), gpus, min(gang, 3), loss, float(rng.uniform(1, 2))))
        levels = sorted(rng.uniform(1, 1.6, 4).tolist()) if rng.random() < 0.6 else [1.0] * 4
        kind = ("jobs", "halving", "curve")[int(rng.integers(0, 3))]
        if kind == "halving":
            order = [int(j) for j in rng.permutation(len(jobs))]
            budget = float(rng.uniform(5e3, 5e4))
            apps.append(App.halving(f"app {i}", at, jobs, budget, order=order, slowdown=Slowdown(*levels)))
        else:
            phase = Phase(tuple(range(len(jobs))), tuple(rng.uniform(1, 200, len(jobs)).tolist()))
            apps.append(App(f"app {i}", at, tuple(jobs), (phase,), kind, Slowdown(*levels)))  # type: ignore[arg-type]
    down = [
        MachineFailure(int(rng.integers(0, len(machines))), float(rng.uniform(0, 3000)), float(rng.uniform(100, 1000)))
        for _ in range(int(rng.integers(0, 4)))
    ]
    failed = [
        AppFailure(i, apps[i].arrival_s + float(rng.uniform(0, 3000)))
        for i in rng.integers(0, n, int(rng.integers(0, 4))).tolist()
    ]
    return SharingWorld(
        SharedCluster(machines), tuple(apps), lease_s=float(rng.choice([60.0, 300.0, 600.0])),
        convention="slowest" if rng.random() < 0.5 else "fluid", machine_failures=tuple(down),
        app_failures=tuple(failed), max_s=1e7,
    )  # fmt: skip


def same(a: SharingResult, b: SharingResult) -> None:
    for name in ("start", "finish", "gpu_seconds", "contention", "rho"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9)
    np.testing.assert_array_equal(a.completed, b.completed)
    assert [(g.app, g.gpus) for g in a.grants] == [(g.app, g.gpus) for g in b.grants]
    np.testing.assert_allclose([g.at_s for g in a.grants], [g.at_s for g in b.grants], rtol=1e-9)


@pytest.mark.parametrize("name", BASELINES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), placement=st.sampled_from(PLACEMENTS))
def test_engines_agree(name: str, seed: int, placement: Placement) -> None:
    world = drawn(seed)
    policy = baseline(name, world.lease_s, placement, seed)
    try:
        readable = simulate(world, policy, engine="simpy")
    except InputError:  # a gang that no machines are left for: both must say so
        for engine in ("simpy", "compiled"):
            with pytest.raises(InputError, match="has not ended"):
                simulate(world, policy, engine=engine)  # type: ignore[arg-type]
        return
    same(readable, simulate(world, policy, engine="compiled"))


@pytest.mark.parametrize("seed", range(6))
def test_a_long_world_agrees(seed: int) -> None:
    world = drawn(1000 + seed, n=40)
    policy = baseline(BASELINES[seed % len(BASELINES)], world.lease_s)
    same(simulate(world, policy, engine="simpy"), simulate(world, policy, engine="compiled"))


def test_gpus_are_never_shared_and_work_is_conserved() -> None:
    for seed in range(5):
        world = drawn(seed)
        result = simulate(world, baseline("tiresias"))
        n = world.cluster.n_gpus
        held: dict[int, set[int]] = {}
        for at, app, gpus in result.grants:
            held[app] = set(gpus)
            assert at <= result.finish[app]
            for other, theirs in held.items():
                if other != app and result.finish[other] > at:
                    held[other] = theirs - set(gpus)  # taken at this instant
        assert result.gpu_seconds.sum() <= n * result.makespan_s * (1 + 1e-12)
        # an app cannot do its work in less GPU time than the work is
        least = [sum(a.work_s(k) for k in range(len(a.phases))) for a in world.apps]
        done = result.completed
        assert np.all(result.gpu_seconds[done] >= np.array(least)[done] * (1 - 1e-9))


def test_a_policy_of_ones_own_runs_on_the_reference() -> None:
    own = Greedy("largest first", lambda v: -v.app.total_work_s)
    world = drawn(3)
    assert simulate(world, own).completed.any()
    with pytest.raises(InputError, match="no compiled form"):
        simulate(world, own, engine="compiled")
    with pytest.raises(InputError, match="expected 'auto'"):
        simulate(world, own, engine="numba")  # type: ignore[arg-type]


def test_scaling_time_scales_everything() -> None:
    """Work, arrivals, leases and overheads ten times as long: ends ten times as late."""
    jobs = (Job(30.0, 4), Job(50.0, 2))

    def world(k: float) -> SharingWorld:
        apps = tuple(
            App(
                f"a{i}",
                k * 100.0 * i,
                tuple(Job(k * j.iteration_s, j.gpus) for j in jobs),
                (Phase((0, 1), (40.0, 20.0)),),
            )
            for i in range(6)
        )
        cluster = SharedCluster.uniform(2, 4)
        return SharingWorld(cluster, apps, lease_s=k * 300, checkpoint_s=k * 5, container_s=k * 30)

    for name in ("fifo", "drf", "tiresias", "srtf", "optimus"):
        slow, quick = simulate(world(10.0), baseline(name)), simulate(world(1.0), baseline(name))
        np.testing.assert_allclose(slow.finish, 10 * quick.finish, rtol=1e-9)
