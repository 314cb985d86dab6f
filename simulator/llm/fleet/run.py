"""The SimPy model of a fleet: pools with hand-over, engines that die, engines that come and go."""

from __future__ import annotations

from collections import deque

import numpy as np

from ....seeds import generator
from ..policy.request import LLMRequest
from ..policy.router import Router, router_named
from ..policy.work import Work
from ..reference import Run, gather
from ..result.iterations import Iterations, TokenRuns
from ..world import Records, World
from .breakdowns import Breakdowns
from .clock import ARRIVES, MOVES
from .engine import Engine, EngineKind
from .growth import Growth
from .handoff import DecodeScheduler, PrefillScheduler
from .member import Member
from .network import Network
from .options import Fleet
from .report import FleetReport, Journal, report

__all__ = ["FleetRun", "run_fleet"]


class FleetRun(Run):
    """A simulation of a fleet under way."""

    def __init__(self, world: World, fleet: Fleet) -> None:
        n = len(world.trace)
        self.fleet, self.journal, self.left = fleet, Journal(n), n
        self.members: list[Member] = []
        self.tries = np.zeros(n, dtype=np.int64)  # events of an earlier try of a request see the change, and do nothing
        self.backlog: dict[str, deque[LLMRequest]] = {role: deque() for role in fleet.roles}
        self.senders: dict[int, Member] = {}  # prefill engines that hold blocks of processed prompts, by row
        self.receivers: dict[int, Member] = {}
        pools = fleet.pools
        self.network = None if pools is None else Network(pools.link, pools.serialise)
        self.routers: dict[str, Router] = {fleet.roles[0]: world.router}
        if pools is not None:
            rng = generator(fleet.seed, "llm", "decode router")
            self.routers["decode"] = router_named(pools.decode_router, rng)
        super().__init__(world)

    # Engines

    def populate(self) -> None:
        """The engines that are there at the beginning, and what happens to them."""
        world, fleet = self.world, self.fleet
        first = EngineKind(
            world.policy,
            world.config,
            world.cost,
            world.swap,
            world.padded,
            fleet.roles[0],
            world.survivors,
            world.times,
            world.adapters,
        )
        self.kinds = {first.role: first}
        counts = {first.role: world.engines}
        if fleet.pools is not None and fleet.decode is not None and fleet.decode_cost is not None:
            self.kinds["decode"] = EngineKind(
                fleet.decode, fleet.decode_config, fleet.decode_cost, None, world.padded, "decode", times=world.times
            )
            counts = {"prefill": fleet.pools.prefill, "decode": fleet.pools.decode}
        self.breakdowns = None if fleet.faults is None else Breakdowns(self, fleet.faults, fleet.seed)
        for role, count in counts.items():
            for _ in range(count):
                self.join(role, "up")
        self.growth = [Growth(self, rule) for rule in fleet.scaling]
        if self.breakdowns is not None:
            self.breakdowns.foresee()

    def join(self, role: str, state: str) -> Member:
        """One more engine."""
        member = Member(self, len(self.members), self.kinds[role], state)
        self.members.append(member)
        self.engines.append(member)
        if state == "up" and self.breakdowns is not None:
            self.breakdowns.serves(member)
        return member

    def serve(self, member: Member) -> None:
        """An engine serves from now on. Requests that waited for one are routed again, in order."""
        member.become("up")
        if self.breakdowns is not None:
            self.breakdowns.serves(member)
        waiting = self.backlog[member.role]
        for _ in range(len(waiting)):
            self.place(waiting.popleft(), member.role)

    def serving(self, role: str) -> list[Member]:
        """Engines of a role that take requests."""
        return [m for m in self.members if m.state == "up" and m.role == role]

    # Requests

    def send(self, request: LLMRequest) -> None:
        """A request goes to an engine where requests begin."""
        self.place(request, self.fleet.roles[0])

    def place(self, request: LLMRequest, role: str) -> None:
        """A request goes to an engine of a role, or waits for one."""
        up = self.serving(role)
        if not up:
            self.backlog[role].append(request)
            self.give_up(role)
            return
        row, member = int(request.id), up[self.routers[role](request, up)]
        self.records.engine[row] = member.index
        if role == "decode":
            self.hand_over(request, member)
            return
        self.journal.first_engine[row] = member.index
        member.rows[row] = request
        member.put(request)

    def give_up(self, role: str) -> None:
        """Fail the requests that wait for an engine of a role, if none will ever serve again."""
        if any(rule.role == role for rule in self.fleet.scaling):
            return  # the scaler may add one
        if any(m.role == role and (m.state in ("up", "starting") or m.returns) for m in self.members):
            return
        waiting = self.backlog[role]
        for _ in range(len(waiting)):
            row = int(waiting.popleft().id)
            if row in self.senders:
                self.release(self.senders.pop(row), row)
            self.fail(row)

    def hand_over(self, request: LLMRequest, member: Member) -> None:
        """A decode engine is chosen for a request whose prompt is processed."""
        row, pools = int(request.id), self.fleet.pools
        assert pools is not None
        member.take(request)
        self.receivers[row] = member
        if pools.handoff == "reserve":
            scheduler: DecodeScheduler = member.scheduler
            scheduler.expect(request, here=False)
            member.wake()
        else:
            self.transfer(row, -(-request.prompt // self.kinds["decode"].config.block_size))

    def transfer(self, row: int, blocks: int) -> None:
        """Blocks of a prompt go from the engine that processed it to the one that decodes."""
        sender, receiver, pools = self.senders[row], self.receivers[row], self.fleet.pools
        assert pools is not None
        assert self.network is not None
        size = blocks * self.kinds["decode"].config.block_size * self.fleet.token_bytes
        whole = size / pools.link.bandwidth_bytes_per_s
        now = self.clock.now
        ends = sender.end[-1] == now  # else it waited for a receiver: nothing was sent while it was computed
        last = sender.end[-1] - sender.start[-1] if ends else 0.0
        start, end = self.network.begin(sender.index, receiver.index, pools.left(whole, last), now)
        self.journal.transfer_start[row], self.journal.transfer_end[row] = start, end
        self.journal.transfer_bytes[row] = size
        tried = self.tries[row]
        self.clock.call(lambda: self.landed(row) if self.tries[row] == tried else None, end, MOVES)

    def landed(self, row: int) -> None:
        """A transfer has ended: the sender's blocks are free, the receiver may decode."""
        sender, receiver, pools = self.senders.pop(row), self.receivers.pop(row), self.fleet.pools
        assert pools is not None
        self.release(sender, row)
        scheduler: DecodeScheduler = receiver.scheduler
        if pools.handoff == "reserve":
            scheduler.arrived(row)
        else:
            scheduler.expect(receiver.rows[row], here=True)
        receiver.wake()

    def release(self, sender: Member, row: int) -> None:
        """A prefill engine need not hold a request's blocks any more."""
        scheduler: PrefillScheduler = sender.scheduler
        scheduler.release(row)
        self.lets_go(sender, row)
        sender.wake()

    def lets_go(self, member: Member, row: int) -> None:
        """An engine has nothing of a request any more; it goes if that was the last one that it was kept for."""
        member.let_go(row)
        if member.state == "draining" and not member.rows:
            member.become("gone")

    def decided(self, engine: Engine, work: Work) -> None:
        """A decision was made; blocks that it reserved are asked for."""
        super().decided(engine, work)
        if engine.kind.role == "decode":
            scheduler: DecodeScheduler = engine.scheduler
            for name, blocks in scheduler.claims():
                self.transfer(int(str(name)), blocks)

    def awaited(self, engine: Engine) -> bool:
        """Whether a transfer will free blocks of an engine, or bring it a request."""
        if engine.kind.role == "both":
            return False
        scheduler: PrefillScheduler | DecodeScheduler = engine.scheduler
        return bool(scheduler.held if isinstance(scheduler, PrefillScheduler) else scheduler.coming)

    def ended(self, engine: Engine, finished: list[LLMRequest]) -> None:
        """An iteration ended: some requests have all the tokens that this engine gives them."""
        if engine.kind.role != "prefill":
            super().ended(engine, finished)
            return
        longest = self.kinds["decode"].config.max_model_len
        for done in finished:
            row, member = int(done.id), self.members[engine.index]
            request = member.rows[row]
            if request.output == 1 or request.prompt + 1 >= longest:  # the first token was the last one
                self.records.finish[row] = self.clock.now
                self.release(member, row)
                self.done(row)
            else:
                self.senders[row] = member
                self.place(request, "decode")

    def leave(self, engine: Engine, row: int) -> None:
        """A request leaves its engine."""
        self.lets_go(self.members[engine.index], row)
        self.done(row)

    def done(self, row: int) -> None:
        """A request has ended: requests that wait for it may arrive."""
        self.left -= 1
        super().done(row)

    def fail(self, row: int) -> None:
        """Nobody will serve a request."""
        self.records.ignored[row] = self.journal.failed[row] = True
        self.records.finish[row] = np.nan
        self.done(row)

    def again(self, row: int, request: LLMRequest, after_s: float) -> None:
        """A request is sent once more."""
        self.clock.call(lambda: self.send(request), self.clock.now + after_s, ARRIVES)

    def run(self, until: float | None) -> None:
        """Step until every request is done, or until some time (seconds)."""
        horizon = float("inf") if until is None else until
        # Not `Clock.run`: random faults and autoscaling schedule events for ever.
        while self.left and self.clock.peek() < horizon:
            self.clock.step()


def run_fleet(
    world: World, fleet: Fleet, until: float | None = None
) -> tuple[Records, Iterations, TokenRuns, FleetReport]:
    """Serve the requests with a fleet, to the end or until some time (seconds).

    Raises
    ------
    InputError
        If the rest can never run, or the cost of an iteration is no time.
    """
    run = FleetRun(world, fleet)
    run.run(until)
    end = run.clock.now if until is None or not run.left else until
    capacities = [member.capacity for member in run.members if member.capacity]
    capacity = round(sum(capacities) / len(capacities)) if capacities else 0
    records, iterations, runs = gather(run.records, run.engines, capacity, until, run.journal.begun)
    return records, iterations, runs, report(run.journal, run.members, iterations, runs, end)
