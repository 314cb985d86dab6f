"""Engines that fail and come back, and what becomes of their requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..policy.request import LLMRequest
from .clock import FAILS
from .faults import Faults
from .handoff import DecodeScheduler
from .member import Member

if TYPE_CHECKING:
    from .run import FleetRun

__all__ = ["Breakdowns"]


class Breakdowns:
    """Makes the engines of a fleet fail, repairs them, and sends their requests elsewhere.

    Parameters
    ----------
    run : FleetRun
        The simulation.
    faults : Faults
        When, and what then.
    seed : int
        Seed of the engines' streams.
    """

    def __init__(self, run: FleetRun, faults: Faults, seed: int) -> None:
        self.run, self.faults, self.seed = run, faults, seed
        self.lives: dict[int, Iterator[tuple[float, float]]] = {}
        self.foreseen: dict[int, int] = {}

    def foresee(self) -> None:
        """Schedule the faults that the user listed."""
        for event in self.faults.events:
            self.run.clock.call(lambda e=event: self.strikes(e.engine, e.repair_s), event.at_s, FAILS)

    def serves(self, member: Member) -> None:
        """An engine serves from now on: schedule its next random fault, if there are any."""
        if self.faults.mtbf_s is None or self.foreseen.get(member.index) == member.born:
            return  # taken back from being drained, it has its death before it
        self.foreseen[member.index] = born = member.born
        lives = self.lives.setdefault(member.index, self.faults.lives(member.index, self.seed))
        life, repair = next(lives)
        self.run.clock.call(
            lambda: self.dies(member, repair) if member.born == born and member.state != "gone" else None,
            self.run.clock.now + life,
            FAILS,
        )

    def strikes(self, engine: int, repair_s: float) -> None:
        """A known death."""
        if engine < len(self.run.members) and self.run.members[engine].state in ("starting", "up", "draining"):
            self.dies(self.run.members[engine], repair_s)

    def dies(self, member: Member, repair_s: float) -> None:
        """An engine fails. Its requests are tried again elsewhere."""
        # One that is being drained was to go anyway: nobody repairs it.
        run, rows, last = self.run, list(member.rows.values()), member.state == "draining"
        member.become("gone" if last else "down")
        member.stop()
        member.rows.clear()
        if run.network is not None:
            run.network.reset(member.index)
        run.journal.deaths[member.index] = run.journal.deaths.get(member.index, 0) + 1
        given = np.zeros(len(run.tries), dtype=np.int64)
        for engine in run.members:
            given += np.bincount(np.array(engine.tokens, dtype=np.int64), minlength=len(given))
        for request in rows:
            self.retry(member, request, int(given[int(request.id)]))
        member.returns = not last and repair_s < float("inf")
        run.give_up(member.role)
        if member.returns:
            turn = member.turns
            run.clock.call(
                lambda: self.repaired(member) if member.turns == turn else None, run.clock.now + repair_s, FAILS
            )

    def repaired(self, member: Member) -> None:
        """An engine is repaired and begins to load its model."""
        member.become("starting")
        member.returns = False
        turn = member.turns
        self.run.clock.call(
            lambda: self.back(member) if member.turns == turn else None,
            self.run.clock.now + self.faults.load_s,
            FAILS,
        )

    def back(self, member: Member) -> None:
        """An engine serves again."""
        member.begin()
        self.run.serve(member)

    def retry(self, dead: Member, request: LLMRequest, given: int) -> None:
        """A request has lost its engine: free what others hold of it, and send it again or give it up."""
        run, row, faults = self.run, int(request.id), self.faults
        run.tries[row] += 1
        sender, receiver = run.senders.pop(row, None), run.receivers.pop(row, None)
        if sender is not None and sender is not dead:
            run.release(sender, row)
        if receiver is not None and receiver is not dead:
            scheduler: DecodeScheduler = receiver.scheduler
            scheduler.forget(row)
            run.lets_go(receiver, row)
            receiver.wake()
        if sender is dead and receiver is None:  # it waited for a decode engine
            run.backlog["decode"] = type(run.backlog["decode"])(r for r in run.backlog["decode"] if int(r.id) != row)
        journal, now, trace = run.journal, run.clock.now, run.world.trace
        journal.retries[row] += 1
        again = trace.request(row, float(run.records.arrival[row]))
        if faults.tokens == "keep" and given:
            tokens = again.tokens
            if tokens is not None:
                new: tuple[int, ...] = tuple(hash((row, "output", again.prompt + k)) for k in range(given))
                tokens = (*tokens, *new)
            again = replace(again, prompt=again.prompt + given, output=again.output - given, tokens=tokens)
        elif faults.tokens == "lose":
            journal.begun[row] = now
            journal.lost_tokens[row] = given
        if journal.retries[row] > faults.max_retries:
            run.fail(row)
        else:
            run.again(row, again, faults.retry_s)
