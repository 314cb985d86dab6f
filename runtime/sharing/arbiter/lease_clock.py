"""`Arbiter`: the lease clock. It hears of what happens, asks the agents, asks the policy, and tells agents their GPUs.

One round at a time, on one event loop:

1. Something happens: an app arrives, a job ends, a lease is over, an agent or a machine is gone.
2. Every agent reports how its jobs stand at that instant, and divides nothing by itself until told.
3. The policy is asked once, as in the simulator.
4. Who loses GPUs stops the jobs on them and has them on disk, and answers.
5. Who has other GPUs now divides them, and answers which it uses; the others go on.

What is decided counts from the instant of step 1: while agents talk, jobs go on, and leases do not drift.

With a journal the arbiter may be killed and started again: agents train on meanwhile, and the next arbiter goes on with
the books and the policy's memory of the one before.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable

from ....simulator.sharing.policy.contract import Policy
from ....simulator.sharing.world import SharingWorld
from ..messages import Answer, Command, Hello, Kind, State
from ..options import RunOptions
from .journal import Journal, KeptLedger
from .roster import Lost, Roster

__all__ = ["Arbiter", "Lost"]

Gpus = tuple[int, ...]
GATHER_S = 0.004
"""After something happened, how long to wait for what happens at the same instant, real seconds: a few times what a
message takes on the loopback device. Otherwise jobs that end together would be two rounds."""


class Arbiter:
    """The arbiter of one run.

    Parameters
    ----------
    world : SharingWorld
        Cluster, apps, leases.
    policy : Policy
        The policy object, the same as the simulator's.
    options : RunOptions
        How fast time passes, and how long to wait for answers.
    end : callable, optional
        ``end(app)`` ends an agent's process: when its app fails in this world, or the agent does not answer. Without
        it, such agents are told to end when they next ask.
    journal : Journal, optional
        Records what the arbiter does, so that it can be started again.
    """

    def __init__(
        self, world: SharingWorld, policy: Policy, options: RunOptions, end: Callable[[int], None] | None = None,
        journal: Journal | None = None,
    ) -> None:  # fmt: skip
        self.world, self.options, self.end = world, options, end
        self.journal = journal or Journal()
        self.ledger = KeptLedger(world, policy, self.journal)
        self.roster = Roster(world, options, self._left)
        self.agents = self.roster.agents
        self.lost: list[Lost] = []
        self.rounds, self.longest_round_s = 0, 0.0
        self.epoch = math.inf
        self.events: list[tuple[int, State | None]] = []
        self._something = asyncio.Event()
        self._failures = sorted([(a.at_s, a.app) for a in world.app_failures])
        machines = [(m.at_s, m.machine, False) for m in world.machine_failures]
        self.machines = sorted(machines + [(m.at_s + m.repair_s, m.machine, True) for m in world.machine_failures])
        self._failed: set[int] = set()  # apps whose end is part of the world

    # ---- what the service hands on

    def hello(self, app: int, hello: Hello) -> None:
        """An agent is there."""
        self.roster.hello(app, hello)
        self.journal.note("hello", app=app, hello=hello.model_dump())
        self._something.set()

    def answered(self, app: int, answer: Answer) -> None:
        """Take an agent's answer to a command."""
        if self.roster.answered(app, answer):
            # What the agent said by itself before, and nobody has read yet, is in its answer.
            self.events = [(a, state) for a, state in self.events if a != app or state is None]

    def happened(self, app: int, state: State) -> None:
        """Take note that an app has arrived, or that jobs of it have ended."""
        # An agent whose app is over says so once, and ends: no arbiter to come may miss it.
        self.journal.note("said", app=app, state=state.model_dump(exclude_defaults=True))
        self.events.append((app, state))
        if state.over:
            self.roster.over(app)
        self._something.set()

    def gone(self, app: int, why: str) -> None:
        """Take note that an agent's process has ended."""
        self.roster.gone(app, why)

    def _left(self, app: int) -> None:
        if self.end is not None:
            self.end(app)  # its GPUs go to others: it must not train on when it wakes up
        self.events.append((app, None))
        self._something.set()

    def close(self) -> None:
        """End the remaining agents, and answer those that still ask for a command."""
        self.roster.close()
        for app in range(len(self.agents)):
            if self.end is not None:
                self.end(app)
        self.journal.close()

    # ---- the clock

    def now_s(self) -> float:
        """The present time, in the world's seconds."""
        return max(0.0, (time.monotonic() - self.epoch) * self.options.time_scale)

    async def ready(self) -> None:
        """Wait until every agent is there, or one is gone."""
        while not all(a.hello or a.gone for a in self.agents):
            self._something.clear()
            await self._something.wait()

    def begin(self) -> None:
        """Let the world's time begin, and tell agents."""
        self.epoch = time.monotonic() + 0.1  # ahead, so that all agents have heard it before the first app arrives
        self.journal.note("begin", epoch=self.epoch)
        for app in range(len(self.agents)):
            self.roster.tell(app, self.beginning())

    def beginning(self) -> Command:
        """The message that tells an agent when the world's time began."""
        return Command(seq=1, kind="begin", epoch=self.epoch)

    async def run(self) -> None:
        """Run rounds until the last app has ended."""
        while len(self.ledger.records) < len(self.agents):
            if not self.events:
                self._something.clear()
                next_s = min(
                    self.ledger.next_lease_s(), self._failures[0][0] if self._failures else math.inf,
                    self.machines[0][0] if self.machines else math.inf,
                )  # fmt: skip
                wait_s = (self.epoch - time.monotonic()) + next_s / self.options.time_scale
                try:
                    await asyncio.wait_for(self._something.wait(), None if math.isinf(wait_s) else max(wait_s, 0.0))
                except TimeoutError:
                    pass
                else:
                    await asyncio.sleep(GATHER_S)
            await self.round()

    # ---- a round

    async def round(self, *, forced: bool = False) -> None:
        """Handle what has happened and decide, if that calls for it; with `forced`, decide in any case."""
        begun, ledger = time.monotonic(), self.ledger
        happened = self.take_in() or forced
        while self._failures and self._failures[0][0] <= self.now_s():
            _, app = self._failures.pop(0)
            if app in ledger.active:
                self._failed.add(app)
                if self.end is not None:
                    self.end(app)  # noticed as any other's end
                else:
                    self.gone(app, "failed, as its world says")
        machines: list[tuple[int, bool]] = []
        while self.machines and self.machines[0][0] <= self.now_s():
            at_s, machine, up = self.machines.pop(0)
            ledger.advance(at_s)
            machines.append((machine, up))
        happened |= ledger.lapse(self.now_s()) or bool(machines)
        if not happened or not ledger.active:
            return
        await self.ask(dict.fromkeys(ledger.active, ()), "report")
        self.take_in()
        hit: set[int] = set()
        for machine, up in machines:
            hit |= ledger.switch(machine, up=up)
        hit &= ledger.active.keys()
        if hit:
            await self.change({a: {g for g in ledger.active[a].gpus if g in ledger.down} for a in hit}, hit, hold=True)
        if ledger.active and ledger.offered():
            decision = ledger.decide()
            await self.change(decision.taken, decision.given, hold=False)
        else:
            decision = None
        for app in list(ledger.active):
            if decision is None or app not in decision.given:
                self.roster.send(app, "resume", ledger.now_s)
        self.rounds += 1
        self.longest_round_s = max(self.longest_round_s, time.monotonic() - begun)

    async def change(self, taken: dict[int, set[int]], given: Iterable[int], *, hold: bool) -> None:
        """Put new grants into effect: apps that lose GPUs leave them first; then apps with new GPUs divide theirs."""
        ledger = self.ledger
        await self.ask({a: tuple(sorted(gpus)) for a, gpus in taken.items()}, "release", update=False)
        for app, gpus in taken.items():
            if app in ledger.active:
                ledger.take(app, gpus & ledger.active[app].gpus & {g for g in gpus if ledger.owner[g] == app})
        await self.ask(
            {a: tuple(sorted(ledger.active[a].gpus)) for a in given if a in ledger.active}, "divide", hold=hold
        )

    def take_in(self) -> bool:
        """Record what agents reported and which are gone; returns whether that calls for a decision."""
        events, self.events = self.events, []
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
            lost = Lost(self.world.apps[app].name, ledger.now_s, self.agents[app].gone)
            self.lost.append(lost)
            self.journal.note("lost", app=lost.app, at_s=lost.at_s, why=lost.why)
        return True

    # ---- talking to agents

    async def ask(self, told: dict[int, Gpus], kind: Kind, *, update: bool = True, hold: bool = False) -> None:
        """Send a command to several agents at once, each with its GPUs, and enter their answers into the ledger."""
        await asyncio.gather(*(self._one(app, kind, gpus, update, hold) for app, gpus in told.items()))

    async def _one(self, app: int, kind: Kind, gpus: Gpus, update: bool, hold: bool) -> None:
        state = await self.roster.ask(app, kind, self.ledger.now_s, gpus, hold=hold)
        if state is not None and update and app in self.ledger.active:
            self._heard(app, state)
