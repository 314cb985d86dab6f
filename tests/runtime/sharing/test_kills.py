"""Callers, arbiters and agents that are killed: nothing stays, and what can go on goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
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
    save_world,
    total_steps,
    trained,
)
from meshwright.simulator.sharing import App, Job, SharedCluster, SharingWorld

CLUSTER = SharedCluster.uniform(2, 2)

PROGRAM = """
from meshwright.runtime.sharing import PolicyChoice, RunOptions, run_sharing
from meshwright.simulator.sharing import App, SharedCluster, SharingWorld
world = SharingWorld(SharedCluster.uniform(1, 2), (App.single("a", 0, 1e5), App.single("b", 0, 1e5)))
run_sharing(world, PolicyChoice("fifo"), RunOptions(time_scale=100.0), arbiter="process")
"""


def test_arbiter_and_agents_end_when_their_caller_is_killed() -> None:
    caller = subprocess.Popen([sys.executable, "-c", PROGRAM])

    def running() -> tuple[int, int]:
        assert caller.poll() is None
        return len(agents_of(caller.pid)), len(agents_of(caller.pid, "arbiter.process"))

    try:
        wait_until(lambda: running() == (3, 1))  # two agents and their parent; the arbiter
    finally:
        caller.kill()
        caller.wait()
    wait_until(lambda: not agents_of(caller.pid) and not agents_of(caller.pid, "arbiter.process"), 20.0)


@pytest.mark.parametrize("arbiter", ["thread", "process"])
def test_sigterm_of_a_run_ends_arbiter_and_agents_and_says_so(tmp_path: Path, arbiter: str) -> None:
    caller = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace('"process"', repr(arbiter))], stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        wait_until(lambda: caller.poll() is None and len(agents_of(caller.pid)) == 3)
        assert list(tmp_path.glob("meshwright-sharing-*"))
        caller.terminate()
        _, complained = caller.communicate(timeout=120)
    finally:
        caller.kill()
        caller.wait()
    assert complained == "run_sharing: terminated (SIGTERM); its processes are ended\n"
    assert caller.returncode == 143
    wait_until(lambda: not agents_of(caller.pid) and not agents_of(caller.pid, "arbiter.process"), 20.0)
    assert not list(tmp_path.glob("meshwright-*"))


def test_an_agent_that_is_stopped_is_lost_and_ended(tmp_path: Path) -> None:
    """Its connection stays open, and nobody would ask it anything for a long time: the other's lease has no end."""
    world = SharingWorld(
        SharedCluster.uniform(1, 2), (App.single("a", 0, 3000.0, gpus=1), App.single("b", 0, 1e5, gpus=1)), lease_s=1e6
    )
    journal = tmp_path / "run" / "arbiter-journal.jsonl"

    def stop() -> None:
        wait_until(lambda: len(noted(journal, "arrive")) == 2)
        time.sleep(1.0)  # it is asked for a report as it arrives, and would be missed for that
        agents = agents_of(os.getpid())
        nursery = next(pid for pid, above in agents.items() if above == os.getpid())
        os.kill(max(pid for pid, above in agents.items() if above == nursery), signal.SIGSTOP)

    stopper = threading.Thread(target=stop)
    stopper.start()
    result = run_sharing(
        world, PolicyChoice("fifo"),
        options=RunOptions(time_scale=300.0, slot_steps=5.0, answer_s=3.0, folder=tmp_path / "run"), arbiter="process",
    )  # fmt: skip
    stopper.join()
    assert [(lost.app, lost.why) for lost in result.lost] == [("b", "no sign of life for 3 s: it is stopped, or hangs")]
    assert result.completed.tolist() == [True, False]
    assert not agents_of(os.getpid())


def test_serve_exits_with_1_when_no_app_was_done(tmp_path: Path) -> None:
    save_world(
        SharingWorld(SharedCluster.uniform(1, 2), (App.single("a", 0, 1e5), App.single("b", 0, 1e5))),
        tmp_path / "w.json",
    )
    (tmp_path / "token").write_text("of-this-test-alone")
    (tmp_path / "token").chmod(0o600)
    command = [sys.executable, "-m", "meshwright.runtime.sharing"]
    pipe = subprocess.PIPE
    how = (
        "serve --world w.json --policy fifo --time-scale 100 --slot-steps 5 --token-file token --answer-s 5 --journal j"
    )
    arbiter = subprocess.Popen([*command, *how.split()], cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
    started = [arbiter]
    try:
        assert arbiter.stderr is not None
        found = re.match(r"arbiter at 127\.0\.0\.1:(\d+)", arbiter.stderr.readline())
        assert found is not None
        stranger = subprocess.run(
            [*command, "agents", "--port", found[1]], cwd=tmp_path, capture_output=True, text=True
        )
        assert stranger.returncode == 2
        assert "asks for its token; give --token-file" in stranger.stderr
        agents = subprocess.Popen(
            [*command, "agents", "--port", found[1], "--token-file", "token"], cwd=tmp_path, stdout=pipe, stderr=pipe,
            text=True,
        )  # fmt: skip
        started.append(agents)
        wait_until(lambda: len(noted(tmp_path / "j", "arrive")) == 2)
        agents.terminate()
        _, complained = agents.communicate(timeout=60)
        assert agents.returncode == 143
        assert complained == "agents: terminated (SIGTERM); its processes are ended\n"
        printed, complained = arbiter.communicate(timeout=120)
        assert arbiter.returncode == 1
        assert "error: serve: no app was done, 2 agents of 2 were lost" in complained
        assert printed.count("lost: agent of app") == 2
        assert not agents_of(agents.pid)
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_sigterm_of_serve_says_so(tmp_path: Path) -> None:
    save_world(SharingWorld(SharedCluster.uniform(1, 1), (App.single("a", 0, 1e5),)), tmp_path / "w.json")
    command = [sys.executable, "-m", "meshwright.runtime.sharing", "serve", "--world", "w.json", "--policy", "fifo"]
    arbiter = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert arbiter.stderr is not None
        assert arbiter.stderr.readline().startswith("arbiter at ")
        arbiter.terminate()
        _, complained = arbiter.communicate(timeout=60)
    finally:
        arbiter.kill()
        arbiter.wait()
    assert complained == "serve: terminated (SIGTERM); its processes are ended\n"
    assert arbiter.returncode == 143


def test_an_arbiter_that_is_killed_too_often_is_named() -> None:
    world = SharingWorld(SharedCluster.uniform(1, 1), (App.single("a", 0, 1e5),))

    def kill() -> None:
        wait_until(lambda: bool(agents_of(os.getpid(), "arbiter.process")))
        os.kill(next(iter(agents_of(os.getpid(), "arbiter.process"))), signal.SIGTERM)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RunError, match="the arbiter's process ended: killed by SIGTERM"):
        run_sharing(world, PolicyChoice("fifo"), options=RunOptions(time_scale=300.0), arbiter="process", restarts=0)
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
    (lost,) = result.lost
    assert lost.app == "doomed"
    # Whether it had a question open when it was killed.
    assert lost.why in ("its connection closed", "no sign of life for 10 s: it is stopped, or hangs")
    kept = Trainer(0, 1, 0)
    kept.load(tmp_path / "kept/app-1-job-0.npz")
    want = trained(0, 1, 0, total_steps(apps[1], 0, result.options))
    assert all(bool((kept.weights()[k] == w).all()) for k, w in want.weights().items())
