"""Themis in the compiled engine decides as the SimPy model does: every start, finish and grant, on drawn worlds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.themis import Themis
from meshwright.planners.themis.lots import lot, lot_kernel, share_of_lot
from meshwright.seeds import generator
from meshwright.simulator.sharing import (
    App,
    AppFailure,
    Job,
    Machine,
    MachineFailure,
    Phase,
    SharedCluster,
    SharingResult,
    SharingWorld,
    Slowdown,
    simulate,
)


def drawn(seed: int) -> SharingWorld:
    """Apps of all kinds, some alike to the last digit, gangs, wrong estimates, machines of all sizes, failures."""
    rng = generator(seed, "themis engines")
    machines = tuple(
        Machine(int(rng.integers(1, 5)), int(rng.integers(1, 3)), int(rng.integers(0, 3)))
        for _ in range(int(rng.integers(2, 8)))
    )
    apps: list[App] = []
    at = 0.0
    for i in range(int(rng.integers(4, 10))):
        at += float(rng.exponential(250.0)) * (rng.random() < 0.7)
        if apps and rng.random() < 0.3:
            apps.append(replace(apps[-1], name=f"app {i}", arrival_s=at))
            continue
        jobs: list[Job] = []
        for _ in range(int(rng.integers(1, 5))):
            gpus = int(rng.integers(1, 6))
            gang = int(rng.integers(1, gpus + 1)) if rng.random() < 0.3 else 1
            jobs.append(Job(float(rng.uniform(2, 60)), gpus, min(gang, 2), optimism=float(rng.uniform(1, 2))))
        slowdown = Slowdown(*sorted(rng.uniform(1, 1.8, 4).tolist())) if rng.random() < 0.7 else Slowdown()
        kind = ("jobs", "halving", "curve")[int(rng.integers(0, 3))]
        if kind == "halving":
            order = [int(j) for j in rng.permutation(len(jobs))]
            app = App.halving(f"app {i}", at, jobs, float(rng.uniform(5e3, 5e4)), order=order, slowdown=slowdown)
        else:
            phase = Phase(tuple(range(len(jobs))), tuple(rng.uniform(1, 200, len(jobs)).tolist()))
            app = App(f"app {i}", at, tuple(jobs), (phase,), kind, slowdown)  # type: ignore[arg-type]
        if rng.random() < 0.3:
            far = Slowdown(1.0, 1.0, 1.0, float(rng.uniform(1, 3)))
            app = replace(app, believed_work=float(rng.uniform(0.7, 1.3)), believed_slowdown=far)
        apps.append(app)
    n = len(apps)
    down = [
        MachineFailure(int(rng.integers(0, len(machines))), float(rng.uniform(0, 3000)), float(rng.uniform(100, 1000)))
        for _ in range(int(rng.integers(0, 2)))
    ]
    failed = [
        AppFailure(i, apps[i].arrival_s + float(rng.uniform(0, 3000)))
        for i in rng.integers(0, n, int(rng.integers(0, 2))).tolist()
    ]
    return SharingWorld(
        SharedCluster(machines), tuple(apps), lease_s=float(rng.choice([60.0, 300.0, 600.0])),
        convention="slowest" if rng.random() < 0.4 else "fluid", machine_failures=tuple(down),
        app_failures=tuple(failed), max_s=1e6,
    )  # fmt: skip


def themis(seed: int) -> Themis:
    """Every setting, in turn."""
    return Themis(
        fairness=(0.8, 0.5, 0.0, 1.0)[seed % 4],
        payments=seed % 7 != 6,
        rounding=("random", "floor", "nearest")[seed % 3],
        visibility=("cached", "current")[seed // 2 % 2],
        leftovers=("participants", "idle")[seed // 3 % 2],
        seed=seed,
    )


def outcome(world: SharingWorld, policy: Themis, engine: str) -> SharingResult | str:
    try:
        return simulate(world, policy, engine=engine)  # type: ignore[arg-type]
    except InputError as error:  # a gang that no machines are left for, payments that are lost for good
        return str(error)


@pytest.mark.parametrize("seed", range(14))
def test_the_compiled_auctions_are_the_same(seed: int) -> None:
    world, one, two = drawn(seed), themis(seed), themis(seed)
    a, b = outcome(world, one, "simpy"), outcome(world, two, "compiled")
    assert one.auctions == two.auctions
    if isinstance(a, str) or isinstance(b, str):
        assert a == b
        return
    for name in ("start", "finish", "gpu_seconds", "contention", "rho"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9)
    np.testing.assert_array_equal(a.completed, b.completed)
    assert [(g.app, g.gpus) for g in a.grants] == [(g.app, g.gpus) for g in b.grants]


def test_a_policy_that_was_used_before_decides_as_a_new_one() -> None:
    world, other, used = drawn(1), drawn(2), Themis()
    for engine in ("compiled", "simpy"):
        simulate(other, used, engine=engine)  # type: ignore[arg-type]
        again = simulate(world, used, engine=engine)  # type: ignore[arg-type]
        np.testing.assert_array_equal(again.finish, simulate(world, Themis()).finish)


def test_lots_are_the_same_in_both_and_even() -> None:
    rng = generator(0, "lots")
    for seed, decision, app in rng.integers(0, 2**31, (200, 3)).tolist():
        assert lot(seed, decision, app) == int(lot_kernel(seed, decision, app))
    drawn_lots = [share_of_lot(lot(3, d, a)) for d in range(200) for a in range(20)]
    # mean of 4,000 uniform numbers: 0.5 ± 0.0046; five of those
    assert abs(np.mean(drawn_lots) - 0.5) < 5 * 12**-0.5 / 4000**0.5
