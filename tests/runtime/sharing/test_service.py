"""The arbiter among agents that only talk: who is given up is told so, and what is wrong with a message is said."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import RunError
from meshwright.runtime.sharing import Arbiter, RunOptions
from meshwright.runtime.sharing.arbiter.comeback import resume
from meshwright.runtime.sharing.arbiter.journal import Journal, KeptLedger, read_journal
from meshwright.runtime.sharing.documents import from_document
from meshwright.runtime.sharing.messages import Answer, Hello, JobState, State
from meshwright.simulator.sharing import App, AppFailure, SharedCluster, SharingWorld, baseline

pytest.importorskip("fastapi")

SCALE = 100.0
OPTIONS = RunOptions(time_scale=SCALE, answer_s=1.0)


class Talker:
    """An agent that trains nothing: it divides as it is told, and is done `takes_s` after it was first given GPUs."""

    def __init__(
        self,
        arbiter: Arbiter,
        app: int,
        takes_s: float,
        mute_after: int = 10**6,
        seq: int = 0,
        gpus: tuple[int, ...] = (),
    ) -> None:
        self.arbiter, self.app, self.takes_s, self.mute_after = arbiter, app, takes_s, mute_after
        self.gpus, self.seq = gpus, seq
        self.over = False
        self.told: list[str] = []

    def state(self, at_s: float) -> State:
        return State(at_s=at_s, phase=0, jobs=(JobState(job=0, left_s=100.0, gpus=self.gpus),))

    async def live(self) -> None:
        arbiter, app = self.arbiter, self.app
        if self.seq == 0:
            arbiter.hello(app, Hello(app=arbiter.world.apps[app].name, step_s=1e-3))
        seq, done = self.seq, None
        while True:
            command = await arbiter.roster.command(app, seq)
            if command is None:
                if not self.over:
                    self.told.append("end")
                return
            seq = command.seq
            if command.kind == "wait":
                continue
            self.told.append(command.kind)
            if len(self.told) > self.mute_after:
                continue  # it asks, and answers nothing
            if command.kind == "begin":
                at = command.epoch + arbiter.world.apps[app].arrival_s / SCALE
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                arbiter.happened(app, self.state(arbiter.world.apps[app].arrival_s))
            if command.kind == "report" and self.takes_s < 0 and self.gpus:
                self.finish()  # at the instant that it is asked
                return
            if command.kind in ("report", "release", "divide"):
                if command.kind == "divide":
                    self.gpus = command.gpus
                if command.kind == "release":
                    self.gpus = tuple(g for g in self.gpus if g not in command.gpus)
                arbiter.answered(app, Answer(seq=seq, state=self.state(command.at_s)))
            if self.gpus and done is None and self.takes_s >= 0:
                done = asyncio.get_running_loop().call_later(self.takes_s, self.finish)

    def finish(self) -> None:
        self.over = True
        self.arbiter.happened(self.app, State(at_s=self.arbiter.now_s(), phase=0, over=True))


def run(
    world: SharingWorld, *talkers: tuple[float, int], options: RunOptions = OPTIONS
) -> tuple[Arbiter, list[Talker]]:
    async def whole() -> tuple[Arbiter, list[Talker]]:
        arbiter = Arbiter(world, baseline("fifo"), options)
        agents = [Talker(arbiter, app, *how) for app, how in enumerate(talkers)]
        tasks = [asyncio.create_task(agent.live()) for agent in agents]
        await asyncio.wait_for(arbiter.ready(), 5.0)
        arbiter.begin()
        await asyncio.wait_for(arbiter.run(), 20.0)
        await asyncio.sleep(0.05)
        arbiter.close()
        for task in tasks:
            task.cancel()
        return arbiter, agents

    return asyncio.run(whole())


APPS = (App.single("a", 0.0, 100.0, gpus=2), App.single("b", 0.0, 100.0, gpus=2))


def test_an_app_that_fails_in_its_world_is_told_to_end() -> None:
    world = SharingWorld(SharedCluster.uniform(1, 2), APPS, app_failures=(AppFailure(0, 30.0),))
    arbiter, (failing, other) = run(world, (60.0, 10**6), (0.1, 10**6))
    assert failing.told[-1] == "end"
    assert "end" not in other.told
    assert arbiter.lost == []  # its world says so
    assert [arbiter.ledger.records[a].completed for a in (0, 1)] == [False, True]
    assert arbiter.ledger.records[0].finish_s >= 30.0
    assert arbiter.ledger.records[1].start_s >= 30.0  # it had to wait for the GPUs


def test_an_agent_that_goes_mute_is_given_up_and_told_so_if_it_comes_back() -> None:
    world = SharingWorld(SharedCluster.uniform(1, 2), APPS)
    arbiter, (mute, other) = run(world, (60.0, 2), (2.0, 10**6))  # its third command goes unanswered
    assert mute.told[-1] == "end"
    assert [str(lost).partition(": ")[2] for lost in arbiter.lost] == ["did not answer 'divide' within 1 s"]
    assert "end" not in other.told
    assert arbiter.ledger.records[1].completed


def test_nobody_waits_for_the_answer_of_an_agent_that_ends_when_it_is_asked() -> None:
    late = replace(APPS[1], arrival_s=50.0)
    world = SharingWorld(SharedCluster.uniform(1, 2), (APPS[0], late))
    # An answer is waited for longer than this test may take.
    arbiter, _ = run(world, (-1.0, 10**6), (0.1, 10**6), options=replace(OPTIONS, answer_s=600.0))
    assert arbiter.lost == []
    assert [arbiter.ledger.records[n].completed for n in (0, 1)] == [True, True]


def killed(path: Path, policy: str, elapsed_s: float, over_s: float | None = None) -> list[dict[str, Any]]:
    """The journal of an arbiter that was killed when it had just taken a's GPUs for b, by the end of a lease at 60 s.

    `elapsed_s`: what the clock of the world says now; `over_s`: when a said that it is done, which nobody read.
    """
    journal = Journal(path)
    ledger = KeptLedger(WORLD, baseline(policy), journal)
    journal.note("task")
    journal.note("begin", epoch=time.monotonic() - elapsed_s / SCALE)
    for app, at_s in ((0, 0.0), (1, 10.0)):
        ledger.arrive(app, State(at_s=at_s, phase=0, jobs=(JobState(job=0, left_s=100.0),)))
        if app == 0:
            ledger.decide()
            ledger.update(0, State(at_s=0.0, phase=0, jobs=(JobState(job=0, left_s=100.0, gpus=(0, 1)),)))
    assert ledger.lapse(60.0)
    assert ledger.decide().given == {0: (), 1: (0, 1)}
    if over_s is not None:
        journal.note("said", app=0, state=State(at_s=over_s, phase=0, over=True).model_dump(exclude_defaults=True))
    return read_journal(path)


WORLD = SharingWorld(SharedCluster.uniform(1, 2), APPS, lease_s=60.0)


def go_on(lines: list[dict[str, Any]], *agents: dict[str, Any]) -> tuple[Arbiter, list[Talker]]:
    async def whole() -> tuple[Arbiter, list[Talker]]:
        arbiter = Arbiter(WORLD, baseline("tiresias"), replace(OPTIONS, orphan_s=0.2))
        talkers = [Talker(arbiter, **agent) for agent in agents]
        tasks = [asyncio.create_task(talker.live()) for talker in talkers]
        await resume(arbiter, lines)
        await asyncio.wait_for(arbiter.run(), 20.0)
        arbiter.close()
        for task in tasks:
            task.cancel()
        return arbiter, talkers

    return asyncio.run(whole())


def test_who_was_never_told_to_give_gpus_up_is_off_them_first(tmp_path: Path) -> None:
    arbiter, (a, b) = go_on(
        killed(tmp_path / "j", "tiresias", 80.0), {"app": 0, "takes_s": 1.0, "seq": 7, "gpus": (0, 1)},
        {"app": 1, "takes_s": 0.2, "seq": 4},
    )  # fmt: skip
    assert a.told[:3] == ["report", "release", "divide"]
    assert b.told[0] == "report"
    assert arbiter.lost == []
    assert [arbiter.ledger.records[n].completed for n in (0, 1)] == [True, True]
    assert arbiter.ledger.records[1].start_s == 60.0  # of the books before
    assert arbiter.ledger.records[1].finish_s < arbiter.ledger.records[0].finish_s


def test_agents_that_do_not_come_back_are_lost_but_what_one_said_counts(tmp_path: Path) -> None:
    arbiter, _ = go_on(killed(tmp_path / "j", "tiresias", 80.0, over_s=70.0))
    assert [str(lost).partition(": ")[2] for lost in arbiter.lost] == [
        "did not come back to the arbiter within 0.2 s"
    ]  # fmt: skip
    done, lost = (arbiter.ledger.records[n] for n in (0, 1))
    assert (done.completed, done.finish_s, done.gpu_s) == (True, 70.0, 120.0)
    assert not lost.completed


def test_a_clock_that_began_anew_is_not_gone_on_with(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"the journal has come to 60 s, this machine's clock only to 0 s"):
        go_on(killed(tmp_path / "j", "tiresias", -1000.0))


def test_messages_of_who_is_given_up_and_of_nobody() -> None:
    httpx = pytest.importorskip("httpx")
    from meshwright.runtime.sharing.arbiter.service import application

    world = SharingWorld(SharedCluster.uniform(1, 2), APPS)
    state = {"at_s": 1.0, "phase": 0, "over": True}
    hello = {"app": "a", "step_s": 0.001}

    async def talk() -> list[Any]:
        arbiter = Arbiter(world, baseline("fifo"), OPTIONS)
        transport = httpx.ASGITransport(application(arbiter))
        async with httpx.AsyncClient(transport=transport, base_url="http://arbiter") as client:
            answers = [
                await client.post("/apps/0/hello", json=hello),
                await client.post("/apps/0/hello", json=hello),  # sent again: its answer was lost
                await client.post("/apps/0/hello", json=hello | {"step_s": 0.002}),  # another agent
                await client.post("/apps/1/gone", json={"why": "killed by SIGKILL"}),
                await client.get("/apps/1/command?after=0"),
                await client.post("/apps/1/state", json=state),
                await client.post("/apps/1/answer", json={"seq": 1, "state": state}),
                await client.get("/apps/2/command?after=0"),
                await client.get("/apps/0/command?after=x"),
                await client.get("/world"),
                await client.get("/"),
            ]
            arbiter.begin()
            answers.append(await client.get("/apps/0/command?after=0"))
        return answers

    answers = asyncio.run(talk())
    assert [a.status_code for a in answers] == [200, 200, 409, 200, 410, 410, 410, 404, 422, 200, 200, 200]
    assert answers[2].json()["detail"] == "arbiter: app 'a' has an agent already; end that one first"
    assert {a.json()["detail"] for a in answers[4:7]} == {"killed by SIGKILL"}
    assert from_document(SharingWorld, answers[9].json()["world"], "world") == world
    assert from_document(RunOptions, answers[9].json()["options"], "options") == OPTIONS
    assert answers[10].json()["awaited"] == []
    assert answers[11].json()["kind"] == "begin"


def test_an_agent_that_says_hello_and_never_asks_is_given_up() -> None:
    async def whole() -> str:
        arbiter = Arbiter(
            SharingWorld(SharedCluster.uniform(1, 2), APPS), baseline("fifo"), replace(OPTIONS, answer_s=0.1)
        )
        arbiter.hello(0, Hello(app="a", step_s=1e-3))
        for _ in range(1000):
            if arbiter.agents[0].gone:
                break
            await asyncio.sleep(0.02)
        return arbiter.agents[0].gone

    assert asyncio.run(whole()) == "no sign of life for 0 s: it is stopped, or hangs"
