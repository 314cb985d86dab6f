"""Worlds run for real on slots of this machine: what must hold of the run, and of what it leaves behind."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("uvicorn")

from arbiter_processes import agents_of, noted, wait_until
from meshwright.errors import RunError
from meshwright.runtime.sharing import (
    PolicyChoice,
    RealSharing,
    RunOptions,
    Trainer,
    run_sharing,
    total_steps,
    trained,
)
from meshwright.runtime.sharing.arbiter.journal import Journal, KeptLedger, read_journal
from meshwright.runtime.sharing.compare import SharingComparison
from meshwright.simulator.sharing import (
    App,
    AppFailure,
    AppView,
    Job,
    MachineFailure,
    Policy,
    SharedCluster,
    SharingWorld,
    baseline,
    simulate_reference,
)  # fmt: skip

CLUSTER = SharedCluster.uniform(2, 2)
SCALE = 300.0


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Training here takes one core, as that of agents does."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def kill_arbiter(folder: Path, killed: list[int]) -> None:
    """In the middle of a round: the second decision is in the books, and agents are being told."""
    wait_until(lambda: len(noted(folder / "arbiter-journal.jsonl", "decide")) >= 2)
    (arbiter,) = agents_of(os.getpid(), "arbiter.process")
    os.kill(arbiter, signal.SIGKILL)
    killed.append(arbiter)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RealSharing:
    apps = (
        App.single("wide", 0, 1000, gpus=4),
        App.single("late", 130, 300, gpus=2),
        App.halving("search", 160, [Job(s, 2) for s in (9.0, 10.0, 11.0)], 500.0, order=[2, 0, 1]),
    )
    world = SharingWorld(CLUSTER, apps, lease_s=150.0)
    folder, killed = tmp_path_factory.mktemp("run") / "kept", list[int]()
    killer = threading.Thread(target=kill_arbiter, args=(folder, killed))
    killer.start()
    result = run_sharing(
        world, PolicyChoice("tiresias"),
        options=RunOptions(time_scale=SCALE, slots_per_core=4, folder=folder, slot_steps=30.0), arbiter="process",
    )  # fmt: skip
    killer.join()
    assert len(killed) == 1
    return result


def test_apps_are_done_though_the_arbiter_was_killed_and_no_process_stays(first: RealSharing) -> None:
    assert first.completed.all()
    assert first.lost == ()
    assert not agents_of(os.getpid())
    assert not agents_of(os.getpid(), "arbiter.process")


def test_nobody_runs_on_what_is_anothers_and_the_journal_is_the_run(first: RealSharing) -> None:
    folder = first.options.folder
    assert folder is not None
    ledger = KeptLedger(first.world, PolicyChoice("tiresias").make(), Journal())
    back = False  # after the arbiter's death agents are asked what they have before they are told what is not theirs
    for line in read_journal(folder / "arbiter-journal.jsonl"):
        if line["op"] == "update":
            has = {g for job in line["state"].get("jobs", []) for g in job.get("gpus", [])}
            assert back or all(ledger.owner[g] in (-1, line["app"]) for g in has)
        elif line["op"] in ("advance", "decide"):
            back = line["op"] == "advance"
        ledger.redo(line)
    assert tuple(ledger.granted) == first.grants
    assert [ledger.records[a].finish_s for a in range(3)] == first.finish.tolist()


def test_weights_are_those_of_training_that_was_never_interrupted(first: RealSharing) -> None:
    assert any(p.resumed for p in first.measured.pauses)  # else this would test nothing
    folder = first.options.folder
    assert folder is not None
    steps = 0
    for a, app in enumerate(first.world.apps):
        for j in range(len(app.jobs)):
            n = total_steps(app, j, first.options)
            kept = Trainer(first.options.seed, a, j)
            kept.load(folder / f"app-{a}-job-{j}.npz")
            want = trained(first.options.seed, a, j, n)
            assert kept.done == n
            assert all(bool((kept.weights()[k] == w).all()) for k, w in want.weights().items())
            steps += n
    assert first.measured.steps == steps


def test_nobody_is_faster_than_its_gpus(first: RealSharing) -> None:
    for a, app in enumerate(first.world.apps):
        assert first.gpu_seconds[a] >= app.total_work_s * (1 - 1e-9)
        assert first.start[a] >= app.arrival_s
        least = app.total_work_s / min(4, app.max_gpus) + first.world.container_s
        assert first.finish[a] >= first.start[a] + least * (1 - 1e-9)
    assert first.gpu_seconds.sum() <= 4 * first.makespan_s


def test_pauses_are_at_least_what_the_world_says(first: RealSharing) -> None:
    world = first.world
    for p in first.measured.pauses:
        told = world.container_s + (world.checkpoint_s if p.resumed else 0.0)
        assert p.pause_s * SCALE >= told * (1 - 1e-6)
        assert p.load_s > 0
    again = first.measured_world()
    assert again.container_s >= world.container_s * (1 - 1e-6)


def test_comparison_has_a_row_for_each_app(first: RealSharing) -> None:
    compared = SharingComparison(first, simulate_reference(first.measured_world(), baseline("tiresias")))
    assert (compared.finish_error > -1).all()
    text = str(compared)
    assert all(app.name in text for app in first.world.apps)


class Killer:
    """FIFO that ends the agent of the first app in the middle of the run: of those that run, the oldest."""

    name, preempts = "killer", False

    def __init__(self) -> None:
        self.fifo, self.killed = baseline("fifo"), 0
        self.armed = False

    def begin(self) -> None:
        self.armed, self.killed = not self.armed, 0  # the rehearsal before the run kills nobody

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        found = agents_of(os.getpid())
        if found and not self.killed and any(v.index == 1 for v in apps):
            children = sorted(pid for pid, above in found.items() if above in found)
            self.killed = children[0]  # forked in the order of the apps
            os.kill(self.killed, signal.SIGKILL)
        return self.fifo.assign(cluster, offered, apps)


def test_agents_that_die_are_named_and_the_others_go_on() -> None:
    apps = (
        App.single("killed", 0, 3000, gpus=1),
        App.single("fails", 60, 3000, gpus=1),
        App.single("moved", 60, 300, gpus=2, gang=2),
    )
    world = SharingWorld(
        CLUSTER, apps, machine_failures=(MachineFailure(1, 150.0, 100.0),), app_failures=(AppFailure(1, 300.0),)
    )
    policy: Policy = Killer()
    result = run_sharing(world, policy, options=RunOptions(time_scale=SCALE, slots_per_core=4, slot_steps=20.0))
    assert result.completed.tolist() == [False, False, True]
    assert [lost.app for lost in result.lost] == ["killed"]  # the world says itself that "fails" fails
    assert "SIGKILL" in str(result.lost[0])
    assert result.finish[1] >= 300.0
    assert not agents_of(os.getpid())


class Faulty:
    """A policy that works when it is tried out, and not when it counts."""

    name, preempts = "faulty", False

    def __init__(self) -> None:
        self.begun = 0

    def begin(self) -> None:
        self.begun += 1

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        if self.begun > 1:
            raise ZeroDivisionError("no apps")
        return baseline("fifo").assign(cluster, offered, apps)


def test_a_policy_that_fails_is_named_and_nothing_stays() -> None:
    world = SharingWorld(SharedCluster.uniform(1, 1), (App.single("a", 0, 100),))
    with pytest.raises(RunError, match=r"policy faulty failed at .* ZeroDivisionError: no apps"):
        run_sharing(world, Faulty(), options=RunOptions(time_scale=SCALE))
    assert not agents_of(os.getpid())
