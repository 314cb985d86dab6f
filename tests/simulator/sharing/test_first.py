"""The shared cluster's first stones: the paper's worked example, and schedules that can be done by hand."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.sharing import (
    App,
    AppView,
    Greedy,
    Job,
    Shape,
    SharedCluster,
    SharingWorld,
    Slowdown,
    simulate_reference,
    themis_168,
    themis_256,
    themis_testbed,
)
from meshwright.simulator.sharing.policy.split import RunningJob, split

FLAT = Slowdown(1.0, 1.0, 1.0, 1.0)
FIFO = Greedy("fifo", lambda v: v.app.arrival_s, preempts=False)
LAS = Greedy("las", lambda v: v.attained_s)


def halving() -> App:
    """The app of Themis §4.3.3."""
    return App.halving("example", 0.0, [Job(s, 8) for s in (80, 100, 100, 120)], 10_000, slowdown=FLAT)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("fluid", [4, 2, 1, 0.5, 0.34]),  # Table 3, as printed
        ("slowest", [4, 2, 1.064, 0.532, 0.356]),  # Equation 2 by the letter
    ],
)
def test_the_worked_example_of_16_gpus(convention: str, expected: list[float]) -> None:
    app = halving()
    assert [p.iterations[0] for p in app.phases] == [8, 16, 36]
    jobs = tuple(RunningJob(j, 8 * job.iteration_s, 8, 1) for j, job in enumerate(app.jobs))
    view = AppView(0, app, 0.0, 0, jobs, (), (), 0.0, 4.0, 16, convention)  # type: ignore[arg-type]
    assert view.ideal_s == 2500
    assert [view.rho(Shape.grouped(n, 8)) for n in (1, 2, 4, 8, 16)] == pytest.approx(expected, rel=1e-12)
    assert view.rho(Shape(())) == np.inf


def test_two_gpus_serialise_four_jobs_as_the_paper_says() -> None:
    jobs = [RunningJob(j, 8 * s, 8, 1) for j, s in enumerate((80.0, 100.0, 100.0, 120.0))]
    cluster = SharedCluster.uniform(1, 2)
    assert split(cluster, (0, 1), jobs, FLAT) == {0: (), 1: (1,), 2: (), 3: (0,)}  # 120 + 80 beside 100 + 100
    world = SharingWorld(cluster, (halving(),), checkpoint_s=0.0, container_s=0.0)
    # 1600 s of four jobs; 16 iterations of 80 and 100 s on a GPU each, of which the first is done at 1280 s and lends
    # the other its GPU: 1440 s; then 36 of 80 s on both: 1440 s
    assert simulate_reference(world, FIFO).finish == pytest.approx([1600 + 1440 + 1440])


def test_a_lone_job_by_hand() -> None:
    app = App.single("one", 10.0, 800.0, gpus=8, slowdown=Slowdown(1.0, 1.0, 1.25, 2.0))
    for cluster, seconds in (
        (SharedCluster.uniform(1, 8), 100.0),
        (SharedCluster.uniform(2, 4), 125.0),
        (SharedCluster.uniform(2, 4, machines_per_rack=1), 200.0),
    ):
        result = simulate_reference(SharingWorld(cluster, (app,), container_s=5.0), FIFO)
        assert result.finish == pytest.approx([10 + 5 + seconds])
        assert result.gpu_seconds == pytest.approx([8 * (5 + seconds)])
        assert result.rho == pytest.approx([(5 + seconds) / 100])


def test_least_attained_service_takes_turns() -> None:
    """Two apps that each want the whole machine get it in turn, a lease at a time; each turn pays for its restart."""
    apps = (App.single("a", 0.0, 400.0, gpus=4), App.single("b", 0.0, 400.0, gpus=4))
    world = SharingWorld(SharedCluster.uniform(1, 4), apps, lease_s=60.0, checkpoint_s=2.0, container_s=8.0)
    result = simulate_reference(world, LAS)
    # Each needs 100 s of all four. Turns of 60 s hold 52 s of work (the first) and 50 s: a, b, a: 48 left, 10 + 48.
    assert result.finish == pytest.approx([120 + 58, 120 + 58 + 58])
    assert [g.app for g in result.grants] == [0, 1, 0, 1]


def test_clusters_of_the_paper() -> None:
    assert [c.n_gpus for c in (themis_testbed(), themis_168(), themis_256())] == [64, 168, 256]


def test_a_gang_larger_than_the_cluster_is_refused() -> None:
    app = App.single("big", 0.0, 1.0, gpus=8, gang=8)
    with pytest.raises(InputError, match="a gang of 8 tasks is larger than the cluster of 4 GPUs"):
        SharingWorld(SharedCluster.uniform(1, 4), (app,))


def test_an_app_that_never_ends_is_named() -> None:
    app = App.single("slow", 0.0, 1e6)
    world = SharingWorld(SharedCluster.uniform(1, 1), (app,), max_s=1000.0)
    with pytest.raises(InputError, match="app 'slow': has not ended by 1000 s under las"):
        simulate_reference(world, LAS)
