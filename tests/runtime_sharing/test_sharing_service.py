"""The arbiter among agents that only talk: who is given up is told so, and what is wrong with a message is said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from meshwright.runtime.sharing import Arbiter, RunOptions
from meshwright.runtime.sharing.documents import from_document
from meshwright.runtime.sharing.messages import Answer, Hello, JobState, State
from meshwright.simulator.sharing import App, AppFailure, SharedCluster, SharingWorld, baseline

pytest.importorskip("fastapi")

SCALE = 100.0
OPTIONS = RunOptions(time_scale=SCALE, answer_s=0.3)


class Talker:
    """An agent that trains nothing: it divides as it is told, and is done `takes_s` after it was first given GPUs."""

    def __init__(self, arbiter: Arbiter, app: int, takes_s: float, mute_after: int = 10**6) -> None:
        self.arbiter, self.app, self.takes_s, self.mute_after = arbiter, app, takes_s, mute_after
        self.gpus: tuple[int, ...] = ()
        self.over = False
        self.told: list[str] = []

    def state(self, at_s: float) -> State:
        return State(at_s=at_s, phase=0, jobs=(JobState(job=0, left_s=100.0, gpus=self.gpus),))

    async def live(self) -> None:
        arbiter, app = self.arbiter, self.app
        arbiter.hello(app, Hello(app=arbiter.world.apps[app].name, step_s=1e-3))
        seq, done = 0, None
        while True:
            command = await arbiter.roster.command(app, seq)
            if command is None:
                if not self.over:
                    self.told.append("end")
                return
            seq = command.seq
            self.told.append(command.kind)
            if len(self.told) > self.mute_after:
                continue  # it asks, and answers nothing
            if command.kind == "begin":
                arbiter.happened(app, self.state(arbiter.world.apps[app].arrival_s))
            if command.kind in ("report", "release", "divide"):
                if command.kind == "divide":
                    self.gpus = command.gpus
                if command.kind == "release":
                    self.gpus = tuple(g for g in self.gpus if g not in command.gpus)
                arbiter.answered(app, Answer(seq=seq, state=self.state(command.at_s)))
            if self.gpus and done is None:
                done = asyncio.get_running_loop().call_later(self.takes_s, self.finish)

    def finish(self) -> None:
        self.over = True
        self.arbiter.happened(self.app, State(at_s=self.arbiter.now_s(), phase=0, over=True))


def run(world: SharingWorld, *talkers: tuple[float, int]) -> tuple[Arbiter, list[Talker]]:
    async def whole() -> tuple[Arbiter, list[Talker]]:
        arbiter = Arbiter(world, baseline("fifo"), OPTIONS)
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
    assert [str(lost).partition(": ")[2] for lost in arbiter.lost] == ["did not answer 'divide' within 0.3 s"]
    assert "end" not in other.told
    assert arbiter.ledger.records[1].completed


def test_messages_of_who_is_given_up_and_of_nobody() -> None:
    httpx = pytest.importorskip("httpx")
    from meshwright.runtime.sharing.service import application

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
