"""What apps, worlds, workloads and metrics take and refuse: one line each, and no traceback."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.themis import Themis
from meshwright.simulator.sharing import (
    App,
    AppFailure,
    Job,
    LossCurve,
    Machine,
    MachineFailure,
    Phase,
    SharedCluster,
    SharingWorld,
    WorkloadOptions,
    apps_of_log,
    baseline,
    sharing_metrics,
    simulate,
    workload2,
)
from meshwright.traces import ClusterJob, ClusterLog

ONE = SharedCluster.uniform(1, 1)
ENGINES = ("simpy", "compiled")


def app(**more: object) -> App:
    given = {"name": "a", "arrival_s": 0.0, "jobs": (Job(1.0),), "phases": (Phase((0,), (10.0,)),), **more}
    return App(**given)  # type: ignore[arg-type]


def world(**more: object) -> SharingWorld:
    return SharingWorld(ONE, (App.single("a", 5.0, 10.0),), **more)  # type: ignore[arg-type]


LOG = ClusterLog("log", (ClusterJob("a", "u", "v", "done", 0.0, 0.0, 1, 10.0),), {})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: app(kind="search"), "kind: expected one of jobs, halving, curve"),
        (lambda: app(phases=(Phase((0,), (1.0,)),) * 2, kind="curve"), "an agent that goes by curves sees one phase"),
        (lambda: app(phases=(Phase((0,), (1.0,), -1),)), "phase 0: gpus: expected an integer >= 0"),
        (lambda: app(phases=(Phase((0,), (-5.0,)),)), "negative or no work"),
        (lambda: app(phases=(Phase((0,), (1e300,)),), jobs=(Job(1e300),)), "more work than a number holds"),
        (lambda: app(arrival_s=math.nan), "arrival_s: expected finite seconds"),
        (lambda: app(phases=(Phase((0,), (1.0,), 2),), jobs=(Job(1.0, 4, 4),)), "phase 0: job 0 can use 2 GPUs"),
        (lambda: App.halving("a", 0.0, [Job(1.0, 2, 2)] * 4, 1e4, doubling=True), "do without doubling"),
        (lambda: App.halving("a", 0.0, [Job(1.0)] * 4, math.inf), "halving: expected jobs and a finite budget_s"),
        (lambda: App.halving("a", 0.0, [Job(1.0)] * 4, math.nan), "halving: expected jobs and a finite budget_s"),
        (lambda: App.halving("a", 0.0, [], 1e4), "halving: expected jobs and a finite budget_s"),
        (lambda: App.halving("a", 0.0, [Job(1.0)] * 4, -5.0), "leave phase 0 no iteration"),
        (lambda: LossCurve(math.nan), "LossCurve: expected finite numbers"),
        (lambda: LossCurve(0.0, 1.0), "end <= start"),
        (lambda: world(convention="mean"), "convention: expected 'fluid' or 'slowest'"),
        (lambda: world(containers="pod"), "containers: expected 'job' or 'app'"),
        (lambda: world(lease_s=math.nan), "lease_s: expected seconds >= 0.001"),
        (lambda: world(container_s=math.inf), "container_s: expected finite seconds"),
        (lambda: world(max_s=math.nan), "max_s: expected seconds > 0"),
        (lambda: world(machine_failures=(MachineFailure(0, 1.0, math.nan),)), "repair_s > 0"),
        (lambda: world(machine_failures=(MachineFailure(True, 1.0, 1.0),)), "there are 1 machines"),
        (lambda: world(machine_failures=(MachineFailure(0.5, 1.0, 1.0),)), "there are 1 machines"),  # type: ignore[arg-type]
        (lambda: world(app_failures=(AppFailure(1, 7.0),)), "there are 1 apps"),
        (lambda: world(app_failures=(AppFailure(0, 5.0),)), "'a' arrives at 5 s and can fail after that"),
        (lambda: world(app_failures=(AppFailure(0, math.inf),)), "can fail after that"),
        (lambda: WorkloadOptions(burstiness=1e-200), "burstiness: expected 0.001 to 1000"),
        (lambda: WorkloadOptions(burstiness=1e200), "burstiness: expected 0.001 to 1000"),
        (lambda: WorkloadOptions(tasks=(True,)), "tasks: expected positive integers"),
        (lambda: apps_of_log(LOG, ended=("done", "finished")), "ended: expected some of done, failed, killed"),  # type: ignore[arg-type]
        (lambda: apps_of_log(LOG, ended="done"), "ended: expected some of done, failed, killed"),  # type: ignore[arg-type]
    ],
)
def test_refused_in_one_line(make: Callable[[], object], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"burstiness": 1e-3}, {"burstiness": 1e3}, {"scale": 1e-300}, {"span_s": 1e-300}])
def test_what_is_odd_but_allowed_is_drawn(options: dict[str, float]) -> None:
    apps = workload2(WorkloadOptions(apps=6, **options))  # type: ignore[arg-type]
    arrivals = [a.arrival_s for a in apps]
    assert arrivals == sorted(arrivals)
    assert all(math.isfinite(a.total_work_s) and a.total_work_s > 0 for a in apps)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_apps(engine: str) -> None:
    metrics = sharing_metrics(simulate(SharingWorld(ONE, ()), baseline("tiresias"), engine=engine))  # type: ignore[arg-type]
    assert (metrics.gpu_hours, metrics.utilisation, metrics.makespan_s) == (0.0, 0.0, 0.0)
    assert all(math.isnan(x) for x in (metrics.max_rho, metrics.fair_share, metrics.jain, metrics.mean_completion_s))
    assert metrics.to_json()["jain"] is None


@pytest.mark.parametrize("engine", ENGINES)
def test_work_that_takes_no_time(engine: str) -> None:
    """A nanosecond of work after 30 years of seconds: the clock does not see it. ρ is 0, beside which the other app's
    share is nothing: Jain's index of (1, 0) is a half."""
    apps = (App.single("long", 0.0, 7200.0), App.single("blink", 1e9, 1e-9))
    result = simulate(SharingWorld(ONE, apps, container_s=0.0), baseline("fifo"), engine=engine)  # type: ignore[arg-type]
    metrics = sharing_metrics(result)
    assert result.finish.tolist() == [7200.0, 1e9]
    assert result.rho.tolist() == [1.0, 0.0]
    assert (metrics.jain, metrics.fair_share) == (0.5, 1.0)


def test_an_app_alone_is_treated_fairly_whatever_its_numbers() -> None:
    """ρ is 1 but for rounding: the share of apps that are treated fairly must not depend on that."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        at, work = float(rng.uniform(0, 1e6)), float(rng.uniform(1, 1e4))
        alone = SharingWorld(ONE, (App.single("a", at, work),), container_s=0.0)
        assert sharing_metrics(simulate(alone, baseline("fifo"))).fair_share == 1.0


def test_work_is_what_was_made_and_not_the_budget() -> None:
    """The example of §4.3.3: 10,000 s are budgeted in iterations of the median job's 100 s; the jobs that are made take
    80, 100, 100, 120, then 80 and 100, then 80."""
    example = App.halving("a", 0.0, [Job(s, 8) for s in (80, 100, 100, 120)], 10_000.0)
    metrics = sharing_metrics(simulate(SharingWorld(SharedCluster.uniform(1, 16), (example,)), baseline("fifo")))
    assert metrics.work_hours * 3600 == pytest.approx(8 * 400 + 16 * 180 + 36 * 80)


@pytest.mark.parametrize("name", ["fifo", "themis"])
def test_racks_may_have_any_numbers(name: str) -> None:
    """Only their order counts."""

    def policy() -> object:
        return Themis() if name == "themis" else baseline(name)

    apps = tuple(App.single(f"a{k}", 10.0 * k, 900.0 + 70 * k, gpus=3) for k in range(6))
    ends = [
        simulate(
            SharingWorld(SharedCluster(tuple(Machine(2, 1, rack) for rack in racks)), apps),
            policy(),
            engine=engine,  # type: ignore[arg-type]
        ).finish
        for racks in ((0, 1, 0, 2), (7, 13, 7, 999_999))
        for engine in ENGINES
    ]
    for other in ends[1:]:
        np.testing.assert_allclose(other, ends[0], rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("failures", "back_s"),
    [
        ([(0.0, 100.0)], 100.0),
        ([(0.0, 100.0), (50.0, 10.0)], 100.0),  # within
        ([(50.0, 10.0), (0.0, 100.0)], 100.0),  # in any order
        ([(0.0, 100.0), (50.0, 100.0)], 150.0),  # overlapping
        ([(0.0, 100.0), (100.0, 100.0)], 200.0),  # touching: no instant between
        ([(0.0, 100.0), (0.0, 300.0), (0.0, 50.0)], 300.0),  # at once
    ],
)
def test_a_machine_is_back_when_its_last_failure_is_repaired(
    engine: str, failures: list[tuple[float, float]], back_s: float
) -> None:
    broken = world(machine_failures=tuple(MachineFailure(0, *f) for f in failures))
    assert simulate(broken, baseline("fifo"), engine=engine).finish == pytest.approx([back_s + 35 + 10])  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_machine_that_never_comes_back(engine: str) -> None:
    broken = world(machine_failures=(MachineFailure(0, 1.0, math.inf),))
    with pytest.raises(InputError, match="app 'a': has not ended when nothing can happen any more under fifo; raise"):
        simulate(broken, baseline("fifo"), engine=engine)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_app_that_has_ended_does_not_fail(engine: str) -> None:
    """Its work is done at 50 s: at that very instant, and after it, it cannot fail any more."""
    for at_s, completed in ((49.999, False), (50.0, True), (60.0, True)):
        result = simulate(world(app_failures=(AppFailure(0, at_s),)), baseline("fifo"), engine=engine)  # type: ignore[arg-type]
        assert result.completed.tolist() == [completed]
        assert result.finish.tolist() == [min(at_s, 50.0)]


@pytest.mark.parametrize("engine", ENGINES)
def test_turns_that_are_shorter_than_a_restart_end_in_an_error(engine: str) -> None:
    """Two apps take turns of 30 s on one GPU, of which a restart takes 42.5: nobody ever works. After
    10 × 2 × (1.3 · 300 + 42.5) s that is said; with a lease of 43 s they end, and so does an app alone, which stays."""
    apps = (App.single("a", 0.0, 300.0), App.single("b", 0.0, 300.0))
    with pytest.raises(
        InputError, match=r"app 'a': has not ended by 8650 s under tiresias, nor have 1 others \(a lease of"
    ):
        simulate(SharingWorld(ONE, apps, lease_s=30.0), baseline("tiresias"), engine=engine)  # type: ignore[arg-type]
    turns = simulate(SharingWorld(ONE, apps, lease_s=43.0), baseline("tiresias"), engine=engine)  # type: ignore[arg-type]
    assert turns.completed.all()
    alone = simulate(SharingWorld(ONE, apps[:1], lease_s=30.0), baseline("tiresias"), engine=engine)  # type: ignore[arg-type]
    assert alone.finish.tolist() == [335.0]


@pytest.mark.parametrize("name", ["tiresias", "themis", "fifo"])
def test_more_leases_than_can_be_simulated_are_refused_first(name: str) -> None:
    """Who preempts nobody has no leases, and plays any work."""
    app = App("a", 0.0, (Job(1.0),), (Phase((0,), (1e18,)),))
    world = SharingWorld(SharedCluster.uniform(1, 2), (app,))
    policy = Themis() if name == "themis" else baseline(name)
    if name == "fifo":
        assert simulate(world, policy).finish[0] == pytest.approx(1e18)
        return
    with pytest.raises(InputError, match="leases of 600 s; expected at most 1,000,000: give longer leases or less"):
        simulate(world, policy)


def test_times_beyond_what_a_clock_tells_apart_are_refused() -> None:
    app = App("a", 1e18, (Job(1.0),), (Phase((0,), (1.0,)),))
    with pytest.raises(InputError, match=r"last arrival or failure is at 1e\+18 s; expected at most 1e\+12 s"):
        SharingWorld(SharedCluster.uniform(1, 2), (app,))
