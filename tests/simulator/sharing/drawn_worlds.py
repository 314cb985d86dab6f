"""Worlds that are drawn, for all that two engines must agree on; and what it means that they do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from meshwright.seeds import generator
from meshwright.simulator.sharing import (
    App,
    AppFailure,
    Job,
    LossCurve,
    Machine,
    MachineFailure,
    Phase,
    SharedCluster,
    SharingResult,
    SharingWorld,
    Slowdown,
)

__all__ = ["drawn", "in_decimals", "same"]


def drawn(seed: int, n: int = 8, *, failures: int = 3, max_s: float = 1e7) -> SharingWorld:
    """`n` apps of all kinds, some alike to the last digit, some that err about themselves, gangs, ties of arrivals,
    machines of all sizes, up to so many `failures` of machines and of apps."""
    rng = generator(seed, "sharing world")
    machines = tuple(
        Machine(int(rng.integers(1, 5)), int(rng.integers(1, 3)), int(rng.integers(0, 3)))
        for _ in range(int(rng.integers(3, 8)))  # a gang may be three
    )
    apps: list[App] = []
    at = 0.0
    for i in range(n):
        at += float(rng.exponential(220.0)) * (rng.random() < 0.75)
        if apps and rng.random() < 0.2:
            apps.append(replace(apps[-1], name=f"app {i}", arrival_s=at))
        else:
            apps.append(_app(rng, f"app {i}", at))
    down = [
        MachineFailure(int(rng.integers(0, len(machines))), float(rng.uniform(0, 3000)), float(rng.uniform(100, 1000)))
        for _ in range(int(rng.integers(0, failures + 1)))
    ]
    failed = [
        AppFailure(i, apps[i].arrival_s + float(rng.uniform(0, 3000)))
        for i in rng.integers(0, n, int(rng.integers(0, failures + 1))).tolist()
    ]
    return SharingWorld(
        SharedCluster(machines), tuple(apps), lease_s=float(rng.choice([60.0, 300.0, 600.0])),
        convention="slowest" if rng.random() < 0.5 else "fluid", machine_failures=tuple(down),
        app_failures=tuple(failed), max_s=max_s, containers="app" if seed % 2 else "job",
        lease_ends="together" if seed // 2 % 2 else "apart",
    )  # fmt: skip


def _app(rng: np.random.Generator, name: str, at: float) -> App:
    jobs: list[Job] = []
    for _ in range(int(rng.integers(1, 6))):
        gpus = int(rng.integers(1, 6))
        gang = int(rng.integers(1, gpus + 1)) if rng.random() < 0.3 else 1
        loss = LossCurve(1.0, float(rng.uniform(0, 0.5)), float(rng.uniform(1, 6)))
        jobs.append(Job(float(rng.uniform(2, 60)), gpus, min(gang, 3), loss, float(rng.uniform(1, 2))))
    slowdown = Slowdown(*sorted(rng.uniform(1, 1.8, 4).tolist())) if rng.random() < 0.65 else Slowdown(1, 1, 1, 1)
    kind = ("jobs", "halving", "curve")[int(rng.integers(0, 3))]
    if kind == "halving":
        order = [int(j) for j in rng.permutation(len(jobs))]
        app = App.halving(name, at, jobs, float(rng.uniform(5e3, 5e4)), order=order, slowdown=slowdown)
    else:
        phase = Phase(tuple(range(len(jobs))), tuple(rng.uniform(1, 200, len(jobs)).tolist()))
        app = App(name, at, tuple(jobs), (phase,), kind, slowdown)  # type: ignore[arg-type]
    if rng.random() < 0.25:
        far = Slowdown(1.0, 1.0, 1.0, float(rng.uniform(1, 3)))
        app = replace(app, believed_work=float(rng.uniform(0.7, 1.3)), believed_slowdown=far)
    return app


def in_decimals(world: SharingWorld, digits: int) -> SharingWorld:
    """The same world with times as people write them, 0.1 or 2.25, and ends that fall together with other events."""

    def of(app: App) -> App:
        jobs = tuple(replace(job, iteration_s=max(round(job.iteration_s, digits), 0.1)) for job in app.jobs)
        phases = tuple(replace(p, iterations=tuple(max(round(x), 1) for x in p.iterations)) for p in app.phases)
        arrival_s, slowdown = round(app.arrival_s, digits), Slowdown(1, 1, 1, 1)
        return replace(app, arrival_s=arrival_s, jobs=jobs, phases=phases, slowdown=slowdown, believed_slowdown=None)

    down = [replace(f, at_s=round(f.at_s, digits), repair_s=round(f.repair_s, digits)) for f in world.machine_failures]
    failed = [replace(f, at_s=round(f.at_s, digits)) for f in world.app_failures]
    return replace(
        world, apps=tuple(map(of, world.apps)), lease_s=round(world.lease_s / 7, digits), checkpoint_s=0.3,
        container_s=1.1, machine_failures=tuple(down), app_failures=tuple(failed),
    )  # fmt: skip


def same(a: SharingResult, b: SharingResult) -> None:
    """Two results are of the same starts, finishes and grants, to the last bit."""
    for name in ("start", "finish", "gpu_seconds", "contention", "rho"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_array_equal(a.completed, b.completed)
    np.testing.assert_array_equal(a.placed, b.placed)
    assert [(g.app, g.gpus) for g in a.grants] == [(g.app, g.gpus) for g in b.grants]
    assert [g.at_s for g in a.grants] == [g.at_s for g in b.grants]
