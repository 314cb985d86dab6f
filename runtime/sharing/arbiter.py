"""`Arbiter`: the lease clock. It hears of what happens, asks the agents, asks the policy, and tells agents their GPUs.

One round at a time, on one event loop:

1. Something happens: an app arrives, a job ends, a lease is over, an agent or a machine is gone.
2. Every agent reports how its jobs stand at that instant, and divides nothing by itself until told.
3. The policy is asked once, as in the simulator.
4. Who loses GPUs stops the jobs on them and has them on disk, and answers.
5. Who has other GPUs now divides them, and answers which it uses; the others go on.

What is decided counts from the instant of step 1: while agents talk, jobs go on, and leases do not drift.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ...errors import InputError
from ...simulator.sharing.policy import Policy
from ...simulator.sharing.world import SharingWorld
from .ledger import Ledger
from .messages import Answer, Command, Hello, Kind, State
from .options import RunOptions

__all__ = ["Arbiter", "Lost"]

Gpus = tuple[int, ...]
GATHER_S = 0.004
"""After something happened, how long to wait for what happens at the same instant, real seconds."""
POLL_S = 20.0
"""How long an agent's question for a command is kept open, real seconds."""


@dataclass(frozen=True, slots=True)
class Lost:
    """An agent that went away before its app was done.

    Parameters
    ----------
    app : str
        Its app.
    at_s : float
        When, in the world's seconds.
    why : str
        How.
    """

    app: str
    at_s: float
    why: str

    def __str__(self) -> str:
        return f"agent of app {self.app!r} at {self.at_s:.4g} s: {self.why}"


@dataclass
class _Agent:
    """The arbiter's end of an agent."""

    command: Command = field(default_factory=lambda: Command(seq=0, kind="wait"))
    news: asyncio.Event = field(default_factory=asyncio.Event)
    answer: asyncio.Future[State] | None = None
    hello: Hello | None = None
    gone: str = ""
    last: State | None = None


class Arbiter:
    """The arbiter of one run.

    Parameters
    ----------
    world : SharingWorld
        Cluster, apps, leases.
    policy : Policy
        The same object that the simulator is given.
    options : RunOptions
        How fast time passes.
    end : callable
        ``end(app)``: end an agent's process (apps that fail in this world, agents that do not answer).
    """

    def __init__(self, world: SharingWorld, policy: Policy, options: RunOptions, end: Callable[[int], None]) -> None:
        self.world, self.options, self.end = world, options, end
        self.ledger = Ledger(world, policy)
        self.agents = [_Agent() for _ in world.apps]
        self.lost: list[Lost] = []
        self.rounds, self.longest_round_s = 0, 0.0
        self.epoch = math.inf
        self._closed = False
        self._events: list[tuple[int, State | None]] = []
        self._something = asyncio.Event()
        self._failures = sorted([(a.at_s, a.app) for a in world.app_failures])
        machines = [(m.at_s, m.machine, False) for m in world.machine_failures]
        self._machines = sorted(machines + [(m.at_s + m.repair_s, m.machine, True) for m in world.machine_failures])
        self._failed: set[int] = set()  # apps whose end is part of the world

    # ---- what the service hands on

    def hello(self, app: int, hello: Hello) -> None:
        """An agent is there."""
        if hello.app != self.world.apps[app].name:
            raise InputError(f"arbiter: app {app} is {self.world.apps[app].name!r} here (got {hello.app!r})")
        self.agents[app].hello = hello
        self._something.set()

    async def command(self, app: int, after: int) -> Command:
        """The next command to an agent, when there is one."""
        agent = self.agents[app]
        if agent.command.seq <= after and not self._closed:
            agent.news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(agent.news.wait(), POLL_S)
        return agent.command if agent.command.seq > after else Command(seq=after, kind="wait")

    def answered(self, app: int, answer: Answer) -> None:
        """An agent's answer to a command; what comes too late is dropped."""
        agent = self.agents[app]
        if agent.answer is not None and answer.seq == agent.command.seq and not agent.answer.done():
            # What the agent said by itself before, and nobody has read yet, is in its answer.
            self._events = [(a, state) for a, state in self._events if a != app or state is None]
            agent.answer.set_result(answer.state)

    def happened(self, app: int, state: State) -> None:
        """An app arrives, or jobs of it have ended."""
        self._events.append((app, state))
        self._something.set()

    def gone(self, app: int, why: str) -> None:
        """An agent's process has ended."""
        agent = self.agents[app]
        agent.gone = agent.gone or why
        if agent.answer is not None and not agent.answer.done():
            agent.answer.cancel()
        self._events.append((app, None))
        self._something.set()

    def close(self) -> None:
        """End what agents are left, and answer whoever still asks for a command."""
        self._closed = True
        for app, agent in enumerate(self.agents):
            self.end(app)
            agent.news.set()

    # ---- the clock

    def now_s(self) -> float:
        """The world's seconds."""
        return max(0.0, (time.monotonic() - self.epoch) * self.options.time_scale)

    async def ready(self) -> None:
        """Wait until every agent is there, or one is gone."""
        while not all(a.hello or a.gone for a in self.agents):
            self._something.clear()
            await self._something.wait()

    async def run(self) -> None:
        """From the start to the end of the last app."""
        self.epoch = time.monotonic() + 0.1
        for app in range(len(self.agents)):
            self._tell(app, Command(seq=1, kind="begin", epoch=self.epoch))
        while len(self.ledger.records) < len(self.agents):
            if not self._events:
                self._something.clear()
                next_s = min(
                    self.ledger.next_lease_s(), self._failures[0][0] if self._failures else math.inf,
                    self._machines[0][0] if self._machines else math.inf,
                )  # fmt: skip
                wait_s = (self.epoch - time.monotonic()) + next_s / self.options.time_scale
                try:
                    await asyncio.wait_for(self._something.wait(), None if math.isinf(wait_s) else max(wait_s, 0.0))
                except TimeoutError:
                    pass
                else:
                    await asyncio.sleep(GATHER_S)
            await self._round()

    # ---- a round

    async def _round(self) -> None:
        begun, ledger = time.monotonic(), self.ledger
        happened = self._take_in()
        while self._failures and self._failures[0][0] <= self.now_s():
            _, app = self._failures.pop(0)
            if app in ledger.active:
                self._failed.add(app)
                self.end(app)  # noticed as any other's end
        machines: list[tuple[int, bool]] = []
        while self._machines and self._machines[0][0] <= self.now_s():
            at_s, machine, up = self._machines.pop(0)
            ledger.advance(at_s)
            machines.append((machine, up))
        happened |= ledger.lapse(self.now_s()) or bool(machines)
        if not happened or not ledger.active:
            return
        await self._ask(dict.fromkeys(ledger.active, ()), "report")
        self._take_in()
        hit: set[int] = set()
        for machine, up in machines:
            hit |= ledger.switch(machine, up=up)
        hit &= ledger.active.keys()
        if hit:
            await self._change({a: {g for g in ledger.active[a].gpus if g in ledger.down} for a in hit}, hit, hold=True)
        if ledger.active and ledger.offered():
            decision = ledger.decide()
            await self._change(decision.taken, decision.given, hold=False)
        else:
            decision = None
        for app in list(ledger.active):
            if decision is None or app not in decision.given:
                self._send(app, "resume")
        self.rounds += 1
        self.longest_round_s = max(self.longest_round_s, time.monotonic() - begun)

    async def _change(self, taken: dict[int, set[int]], given: Iterable[int], *, hold: bool) -> None:
        """First whoever loses GPUs is off them; then whoever has others divides."""
        ledger = self.ledger
        await self._ask({a: tuple(sorted(gpus)) for a, gpus in taken.items()}, "release", update=False)
        for app, gpus in taken.items():
            if app in ledger.active:
                ledger.take(app, gpus & ledger.active[app].gpus & {g for g in gpus if ledger.owner[g] == app})
        await self._ask(
            {a: tuple(sorted(ledger.active[a].gpus)) for a in given if a in ledger.active}, "divide", hold=hold
        )

    def _take_in(self) -> bool:
        """Write down what agents said and who is gone; whether that calls for a decision."""
        events, self._events = self._events, []
        ledger, any_news = self.ledger, False
        for app, state in sorted(events, key=lambda e: e[1].at_s if e[1] is not None else math.inf):
            if state is None:
                any_news |= self._lose(app)
            elif app in ledger.records:
                continue  # of an agent that is gone, or already known
            elif app not in ledger.active:
                ledger.arrive(app, state)
                any_news = True
            else:
                self._heard(app, state)
                any_news = True
        return any_news

    def _heard(self, app: int, state: State) -> None:
        self.ledger.update(app, state)
        self.agents[app].last = state

    def _lose(self, app: int) -> bool:
        """An agent is gone: was its app done?"""
        ledger = self.ledger
        if app in ledger.records:
            return False
        ledger.advance(self.now_s())
        if app not in ledger.active:  # before it arrived
            ledger.arrive(app, State(at_s=ledger.now_s, phase=0))
        ledger.leave(app, completed=False)
        if app not in self._failed:
            self.lost.append(Lost(self.world.apps[app].name, ledger.now_s, self.agents[app].gone))
        return True

    # ---- talking to agents

    def _tell(self, app: int, command: Command) -> None:
        self.agents[app].command = command
        self.agents[app].news.set()

    def _send(self, app: int, kind: Kind, gpus: Gpus = (), *, hold: bool = False) -> None:
        seq = self.agents[app].command.seq + 1
        self._tell(app, Command(seq=seq, kind=kind, at_s=self.ledger.now_s, gpus=gpus, hold=hold))

    async def _ask(self, told: dict[int, Gpus], kind: Kind, *, update: bool = True, hold: bool = False) -> None:
        """A command to some agents at once, each with GPUs; their answers go into the books."""
        await asyncio.gather(*(self._one(app, kind, gpus, update, hold) for app, gpus in told.items()))

    async def _one(self, app: int, kind: Kind, gpus: Gpus, update: bool, hold: bool) -> None:
        agent = self.agents[app]
        if agent.gone:
            return
        agent.answer = asyncio.get_running_loop().create_future()
        self._send(app, kind, gpus, hold=hold)
        done, _ = await asyncio.wait([agent.answer], timeout=self.options.answer_s)
        if not done:
            agent.gone = f"did not answer {kind!r} within {self.options.answer_s:g} s"
            self.end(app)
        elif not agent.answer.cancelled() and update and app in self.ledger.active:
            self._heard(app, agent.answer.result())
        agent.answer = None
