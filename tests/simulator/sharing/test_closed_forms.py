"""Both engines against what can be worked out on paper: queues, turns, contention, what falls on one instant."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import permutations
from typing import Literal

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.themis import Themis
from meshwright.seeds import generator
from meshwright.simulator.sharing import (
    App,
    AppFailure,
    Job,
    MachineFailure,
    Phase,
    Policy,
    SharedCluster,
    SharingResult,
    SharingWorld,
    Slowdown,
    baseline,
    sharing_metrics,
    simulate,
)

FLAT = Slowdown(1.0, 1.0, 1.0, 1.0)
FOUR = SharedCluster.uniform(1, 4)
Engine = Literal["simpy", "compiled"]

pytestmark = pytest.mark.parametrize("engine", ["simpy", "compiled"])


def wide(works: Sequence[float], arrivals: Sequence[float] | None = None, gpus: int = 4) -> tuple[App, ...]:
    """Apps of one job that may use so many GPUs."""
    at = arrivals or [0.0] * len(works)
    return tuple(App.single(f"a{k}", at[k], w, gpus=gpus, slowdown=FLAT) for k, w in enumerate(works))


def run(apps: tuple[App, ...], policy: Policy | str, engine: Engine, **more: object) -> SharingResult:
    options = {"checkpoint_s": 0.0, "container_s": 0.0, "lease_s": 60.0, **more}
    cluster = options.pop("cluster", FOUR)
    chosen = baseline(policy) if isinstance(policy, str) else policy
    return simulate(SharingWorld(cluster, apps, **options), chosen, engine=engine)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_queue_of_equal_apps(engine: Engine, n: int) -> None:
    """First come, first served, each on the whole machine: the k-th (from 0) ends at (k + 1)·W/4, and n, n − 1, … apps
    were there until then: N_avg = n − k/2, ρ = (k + 1)/(n − k/2)."""
    result = run(wide([400.0] * n), "fifo", engine)
    k = np.arange(n)
    np.testing.assert_allclose(result.finish, 100.0 * (k + 1), rtol=1e-12)
    np.testing.assert_allclose(result.contention, n - k / 2, rtol=1e-12)
    np.testing.assert_allclose(result.rho, (k + 1) / (n - k / 2), rtol=1e-12)
    metrics = sharing_metrics(result)
    assert metrics.utilisation == pytest.approx(1.0)
    assert metrics.fair_share == np.mean(k + 1 <= n - k / 2)
    x = (n - k / 2) / (k + 1)
    assert metrics.jain == pytest.approx(x.sum() ** 2 / (n * (x**2).sum()))


@pytest.mark.parametrize("gpus", [1, 2, 3, 4])
def test_apps_of_one_gpu_are_a_queue_with_so_many_servers(engine: Engine, gpus: int) -> None:
    """Kiefer and Wolfowitz: whoever arrives takes the server that is free first."""
    rng = generator(3, "queue", gpus)
    arrivals = np.cumsum(rng.exponential(30.0, 60)).tolist()
    works = rng.lognormal(4.0, 1.0, 60).tolist()
    free, ends = [0.0] * gpus, list[float]()
    for at, work in zip(arrivals, works, strict=True):
        ends.append(max(at, heapq.heappop(free)) + work)
        heapq.heappush(free, ends[-1])
    apps = wide(works, arrivals, gpus=1)
    result = run(apps, "fifo", engine, cluster=SharedCluster.uniform(1, gpus))
    np.testing.assert_allclose(result.finish, ends, rtol=1e-9)


def test_equal_shares_end_together(engine: Engine) -> None:
    """Two apps of equal work, half of the GPUs each from the first to the last second: ρ = 1, Jain's index 1."""
    for policy in ("drf", "srsf", "optimus"):
        result = run(wide([600.0, 600.0]), policy, engine)
        if policy == "srsf":  # the shorter first, GPU by GPU; of equals the first takes all that it can use
            np.testing.assert_allclose(result.finish, [150.0, 300.0])
            continue
        np.testing.assert_allclose(result.finish, [300.0, 300.0])
        np.testing.assert_allclose(result.rho, [1.0, 1.0])
        assert sharing_metrics(result).jain == pytest.approx(1.0)


@pytest.mark.parametrize("policy", ["srsf", "srtf"])
def test_the_shortest_first_is_the_best_of_all_orders(engine: Engine, policy: str) -> None:
    """Apps that each fill the machine: no order has a smaller mean completion time; all are tried."""
    works = [400.0, 100.0, 900.0, 200.0, 40.0]
    best = min(float(np.cumsum(order).mean()) for order in permutations(w / 4 for w in works))
    assert run(wide(works), policy, engine).completion_s.mean() == pytest.approx(best)


def test_turns_of_a_lease(engine: Engine) -> None:
    """The least attained service of n equal apps that each fill the machine: turns of a lease, whoever had least and of
    equals the first. W = 2.5 leases each: the k-th of three ends in round three, after half a lease of each before it.
    """
    result = run(wide([2.5 * 60 * 4] * 3), "tiresias", engine)
    np.testing.assert_allclose(result.finish, [6 * 60 + 30 * (k + 1) for k in range(3)])
    assert [g.app for g in result.grants] == [0, 1, 2] * 3
    assert sharing_metrics(result).gpu_hours * 3600 == pytest.approx(3 * 2.5 * 60 * 4)


def test_turns_pay_for_restarts(engine: Engine) -> None:
    """Two equal apps of 400 s of the machine, leases of 60 s: a first turn has a container to start, 8 s, later ones a
    checkpoint too, 10 s. Turns do 52, then 50 s: 400 = 52 + 6·50 + 48, so the last turn of each takes 58 s."""
    result = run(wide([1600.0, 1600.0]), "tiresias", engine, checkpoint_s=2.0, container_s=8.0)
    np.testing.assert_allclose(result.finish, [14 * 60 + 58, 14 * 60 + 58 + 58])


def test_an_app_alone_keeps_its_gpus_when_its_lease_is_over(engine: Engine) -> None:
    """Nothing restarts, however often: one container at the start."""
    for policy in ("tiresias", "gandiva", "srtf", Themis()):
        result = run(wide([4000.0]), policy, engine, checkpoint_s=7.0, container_s=35.0, lease_s=10.0)
        assert result.finish.tolist() == pytest.approx([1035.0])
        assert result.placed.sum() == 1


def test_leases_without_end_are_no_turns(engine: Engine) -> None:
    """The least attained service with leases of infinity: whoever has the machine keeps it, like first come."""
    works, arrivals = [500.0, 300.0, 100.0], [0.0, 10.0, 20.0]
    never = run(wide(works, arrivals), "tiresias", engine, lease_s=float("inf"))
    np.testing.assert_allclose(never.finish, np.cumsum(works) / 4)


def test_a_job_that_ends_when_its_lease_does(engine: Engine) -> None:
    """At 60 s the first app's work and lease are both over: it is done, and the other has all from then on."""
    result = run(wide([240.0, 240.0]), "tiresias", engine)
    assert result.finish.tolist() == [60.0, 120.0]
    assert [(g.at_s, g.app) for g in result.grants] == [(0.0, 0), (60.0, 1)]


def test_a_job_that_ends_when_its_machine_fails(engine: Engine) -> None:
    """Work that is done at an instant is done before what fails in it; the other app waits for the repair."""
    result = run(wide([240.0, 240.0]), "fifo", engine, machine_failures=(MachineFailure(0, 60.0, 1000.0),))
    assert result.finish.tolist() == [60.0, 1060.0 + 60.0]


def test_a_machine_that_fails_when_an_app_arrives(engine: Engine) -> None:
    """The app arrives in a cluster without GPUs, and starts when they are back, at the instant of another arrival."""
    apps = wide([240.0, 240.0], [10.0, 110.0])
    result = run(apps, "fifo", engine, machine_failures=(MachineFailure(0, 10.0, 100.0),))
    np.testing.assert_allclose(result.start, [110.0, 170.0])
    np.testing.assert_allclose(result.finish, [170.0, 230.0])


def test_a_machine_that_fails_while_a_container_starts(engine: Engine) -> None:
    """No work was done in 5 of 8 s: back at 20 s, the job saves nothing worth saving and pays for both all the same."""
    result = run(
        wide([240.0]),
        "fifo",
        engine,
        checkpoint_s=2.0,
        container_s=8.0,
        machine_failures=(MachineFailure(0, 5.0, 15.0),),
    )
    assert result.finish.tolist() == [20.0 + 10.0 + 60.0]
    assert result.gpu_seconds.tolist() == [4 * (5.0 + 70.0)]


def test_an_app_that_fails_at_the_end_of_a_lease(engine: Engine) -> None:
    """It leaves before leases are over: its GPUs are free at once, and count until then."""
    result = run(wide([2400.0, 240.0]), "tiresias", engine, app_failures=(AppFailure(0, 60.0),))
    assert result.finish.tolist() == [60.0, 120.0]
    assert result.completed.tolist() == [False, True]
    assert result.gpu_seconds.tolist() == [240.0, 240.0]
    # two apps in the first minute, one in the second
    assert result.contention.tolist() == [2.0, 1.5]


def test_a_gang_waits_for_all_of_its_gpus_and_others_pass_it(engine: Engine) -> None:
    """Three GPUs are needed and two free: the next in the queue, which needs one, starts; documented as such."""
    apps = (
        App.single("two", 0.0, 200.0, gpus=2, gang=2),
        App.single("three", 1.0, 300.0, gpus=3, gang=3),
        App.single("one", 2.0, 50.0),
    )
    result = run(apps, "fifo", engine)
    np.testing.assert_allclose(result.start, [0.0, 100.0, 2.0])
    np.testing.assert_allclose(result.finish, [100.0, 200.0, 52.0])


def test_ties_go_to_the_lower_number(engine: Engine) -> None:
    """Apps alike to the last digit: where ties are not drawn, policies serve them in order, and are the same twice."""
    for name in ("fifo", "tiresias", "tiresias-2q", "srtf", "srsf", "slaq", "gandiva", "finish-time"):
        first, again = (run(wide([480.0] * 3), baseline(name, ties="first"), engine) for _ in range(2))
        assert first.start.tolist() == sorted(first.start.tolist()), name
        assert first.grants == again.grants, name
        np.testing.assert_array_equal(first.finish, again.finish)


def test_ties_that_are_drawn_starve_nobody(engine: Engine) -> None:
    """Six apps alike want all GPUs. In order the last one waits for all others; by lot all soon have some of them."""
    lots = run(wide([4800.0] * 6), "gandiva", engine)
    order = run(wide([4800.0] * 6), baseline("gandiva", ties="first"), engine)
    assert lots.start.max() < order.start.max() == pytest.approx(5 * 4800 / 4)
    other = run(wide([4800.0] * 6), baseline("gandiva", seed=1), engine)
    assert lots.start.tolist() != other.start.tolist()


def test_n_avg_is_the_mean_of_the_apps_that_are_there(engine: Engine) -> None:
    """Against the overlaps of lives, summed by hand; apps that fail count while they are there."""
    rng = generator(5, "contention")
    arrivals = np.cumsum(rng.exponential(100.0, 25) * (rng.random(25) < 0.8)).tolist()
    works = rng.uniform(50.0, 3000.0, 25).tolist()
    gone = (AppFailure(3, arrivals[3] + 77.0), AppFailure(10, arrivals[10] + 200.0))
    for policy in ("fifo", "tiresias", "srsf"):
        result = run(wide(works, arrivals), policy, engine, app_failures=gone)
        at, end = np.array(arrivals), result.finish
        overlap = np.clip(np.minimum.outer(end, end) - np.maximum.outer(at, at), 0.0, None)
        np.testing.assert_allclose(result.contention, overlap.sum(axis=1) / (end - at), rtol=1e-9)


@pytest.mark.parametrize(("lease_ends", "again"), [("apart", 85.0), ("together", 120.0)])
def test_what_is_granted_between_two_rounds(engine: Engine, lease_ends: str, again: float) -> None:
    """Two GPUs. "b" takes over one at 25 s. Apart, its lease is over at 85 s, and "a", which made way for "d" at 60 s,
    goes on then; together, both GPUs are on offer at 60 s, to "d" and to "b", and next at 120 s."""
    pair = SharedCluster.uniform(1, 2)
    apps = wide([100.0, 25.0, 500.0, 500.0], [0.0, 0.0, 10.0, 30.0], gpus=1)
    result = run(apps, "tiresias", engine, cluster=pair, lease_ends=lease_ends)
    assert [g.at_s for g in result.grants if g.app == 0][:2] == [0.0, again]
    assert result.finish[0] == again + 40.0  # 60 of 100 s were done
    assert result.gpu_seconds[2] == result.gpu_seconds[3] == 500.0


def test_rounds_are_at_multiples_of_the_lease_to_the_last_bit(engine: Engine) -> None:
    """A grant at a multiple lasts until the next one, also where their quotient is an ulp below a whole number."""
    for lease_s in (0.1, 0.7, 600.0, 1e9 / 3):
        world = SharingWorld(FOUR, (), lease_s=lease_s, lease_ends="together")
        for k in range(2000):
            assert world.lease_end_s(k * lease_s) == (k + 1) * lease_s
            assert world.lease_end_s((k + 0.25) * lease_s) == (k + 1) * lease_s
    with pytest.raises(InputError, match="lease_ends: expected 'apart' or 'together'"):
        run((), "fifo", engine, lease_ends="never")


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e6, 1e9])
def test_tiny_and_huge_times(engine: Engine, factor: float) -> None:
    """All times by a factor: all ends by that factor."""

    def ends(k: float) -> np.ndarray:
        jobs = (Job(3.0 * k, 2), Job(5.0 * k, 3, 2))
        apps = tuple(App(f"a{i}", 70.0 * k * i, jobs, (Phase((0, 1), (40.0, 20.0)),), "jobs", FLAT) for i in range(5))
        return run(apps, "drf", engine, checkpoint_s=2 * k, container_s=9 * k).finish

    np.testing.assert_allclose(ends(factor), ends(1.0) * factor, rtol=1e-9)
