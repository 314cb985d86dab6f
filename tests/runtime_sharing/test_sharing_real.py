"""Worlds run for real on slots of this machine: what must hold of the run, and of what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("uvicorn")

from meshwright.errors import RunError
from meshwright.runtime.sharing import (
    PolicyChoice,
    RealSharing,
    Trainer,
    run_sharing,
    save_world,
    total_steps,
    trained,
)
from meshwright.runtime.sharing.compare import SharingComparison
from meshwright.runtime.sharing.journal import Journal, KeptLedger, read_journal
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


def agents_of(parent: int, what: str = "nursery") -> dict[int, int]:
    """Processes of agents under a process, or its arbiter's: pid -> its parent, the nursery."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                above = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if f"meshwright.runtime.sharing.{what}" in command and f" {parent} " in command:
                found[int(entry.name)] = above
    return found


def noted(journal: Path, op: str) -> list[dict[str, Any]]:
    """Whole lines of a journal of one kind."""
    text = journal.read_text() if journal.exists() else ""
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return [line for line in lines if line["op"] == op]


def wait_until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.005)


def kill_arbiter(folder: Path, killed: list[int]) -> None:
    """In the middle of a round: the second decision is in the books, and agents are being told."""
    wait_until(lambda: len(noted(folder / "arbiter-journal.jsonl", "decide")) >= 2)
    (arbiter,) = agents_of(os.getpid(), "arbiter_process")
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
        world, PolicyChoice("tiresias"), time_scale=SCALE, slots_per_core=4, folder=folder, slot_steps=30.0,
        arbiter="process",
    )  # fmt: skip
    killer.join()
    assert len(killed) == 1
    return result


def test_apps_are_done_though_the_arbiter_was_killed_and_no_process_stays(first: RealSharing) -> None:
    assert first.completed.all()
    assert first.lost == ()
    assert not agents_of(os.getpid())
    assert not agents_of(os.getpid(), "arbiter_process")


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
            kept.load(folder / f"app-{a}-job-{j}.pt")
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
    result = run_sharing(world, policy, time_scale=SCALE, slots_per_core=4, slot_steps=20.0)
    assert result.completed.tolist() == [False, False, True]
    assert [lost.app for lost in result.lost] == ["killed"]  # the world says itself that "fails" fails
    assert "SIGKILL" in str(result.lost[0])
    assert result.finish[1] >= 300.0
    assert not agents_of(os.getpid())


PROGRAM = """
from meshwright.runtime.sharing import PolicyChoice, run_sharing
from meshwright.simulator.sharing import App, SharedCluster, SharingWorld
world = SharingWorld(SharedCluster.uniform(1, 2), (App.single("a", 0, 1e5), App.single("b", 0, 1e5)))
run_sharing(world, PolicyChoice("fifo"), time_scale=100.0, arbiter="process")
"""


def test_arbiter_and_agents_end_when_their_caller_is_killed() -> None:
    caller = subprocess.Popen([sys.executable, "-c", PROGRAM])

    def running() -> tuple[int, int]:
        assert caller.poll() is None
        return len(agents_of(caller.pid)), len(agents_of(caller.pid, "arbiter_process"))

    try:
        wait_until(lambda: running() == (3, 1))  # two agents and their parent; the arbiter
    finally:
        caller.kill()
        caller.wait()
    wait_until(lambda: not agents_of(caller.pid) and not agents_of(caller.pid, "arbiter_process"), 20.0)


def test_an_arbiter_that_is_killed_too_often_is_named() -> None:
    world = SharingWorld(SharedCluster.uniform(1, 1), (App.single("a", 0, 1e5),))

    def kill() -> None:
        wait_until(lambda: bool(agents_of(os.getpid(), "arbiter_process")))
        os.kill(next(iter(agents_of(os.getpid(), "arbiter_process"))), signal.SIGTERM)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RunError, match="the arbiter's process ended: killed by SIGTERM"):
        run_sharing(world, PolicyChoice("fifo"), time_scale=SCALE, arbiter="process", restarts=0)
    killer.join()
    assert not agents_of(os.getpid())


def test_agents_come_to_an_arbiter_that_is_killed_and_started_again_by_hand(tmp_path: Path) -> None:
    apps = (
        App.single("doomed", 0, 9000.0, gpus=1),
        App.single("one", 0, 1500.0, gpus=2),
        App.halving("two", 50.0, [Job(9.0, 2), Job(11.0, 2)], 1000.0),
    )
    save_world(SharingWorld(CLUSTER, apps, lease_s=300.0), tmp_path / "w.json")
    command = [sys.executable, "-m", "meshwright.runtime.sharing"]
    how = "serve --world w.json --policy srsf --time-scale 300 --slot-steps 20 --slots-per-core 4 --journal j.jsonl"
    journal = tmp_path / "j.jsonl"
    started, pipe = list[subprocess.Popen[str]](), subprocess.PIPE

    def start(*words: str) -> subprocess.Popen[str]:
        started.append(subprocess.Popen([*command, *words], cwd=tmp_path, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    try:
        arbiter = start(*how.split())
        assert arbiter.stderr is not None
        said = arbiter.stderr.readline()
        found = re.fullmatch(r"arbiter at 127\.0\.0\.1:(\d+), policy srsf, apps: doomed, one, two\n", said)
        assert found is not None, said
        agents = start("agents", "--port", found[1], "--folder", "kept")
        wait_until(lambda: len(noted(journal, "arrive")) == 3 and len(noted(journal, "decide")) >= 2)
        first_agent = sorted(pid for pid, above in agents_of(agents.pid).items() if above in agents_of(agents.pid))[0]
        os.kill(first_agent, signal.SIGKILL)  # forked in the order of the apps
        wait_until(lambda: bool(noted(journal, "lost")))
        arbiter.kill()
        arbiter.wait()
        again = start("serve", "--resume", "j.jsonl", "--out", "r.json")
        printed, complained = again.communicate(timeout=120)
        assert again.returncode == 0, complained
        assert "lost: agent of app 'doomed'" in printed
        _, complained = agents.communicate(timeout=60)
        assert agents.returncode == 1
        assert complained == "agent of app 'doomed': killed by SIGKILL\n"
    finally:
        for process in started:
            process.kill()
            process.communicate()
    result = RealSharing.load(tmp_path / "r.json")
    assert result.completed.tolist() == [False, True, True]
    assert [(lost.app, lost.why) for lost in result.lost] == [("doomed", "its connection closed")]
    kept = Trainer(0, 1, 0)
    kept.load(tmp_path / "kept/app-1-job-0.pt")
    want = trained(0, 1, 0, total_steps(apps[1], 0, result.options))
    assert all(bool((kept.weights()[k] == w).all()) for k, w in want.weights().items())


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
        run_sharing(world, Faulty(), time_scale=SCALE)
    assert not agents_of(os.getpid())
