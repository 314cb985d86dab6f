"""Engines that are added and taken away while a fleet runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import InputError
from .clock import FAILS, SCALES
from .member import Member
from .scaling import Autoscaling

if TYPE_CHECKING:
    from .run import FleetRun

__all__ = ["Growth"]


class Growth:
    """Asks a scaler once each interval how many engines there should be, and adds or drains engines accordingly.

    Parameters
    ----------
    run : FleetRun
        The simulation.
    rule : Autoscaling
        Bounds, interval, and the scaler.
    """

    def __init__(self, run: FleetRun, rule: Autoscaling) -> None:
        self.run, self.rule, self.scaler = run, rule, rule.fresh()
        run.clock.call(self.evaluate, rule.interval_s, SCALES)

    def evaluate(self) -> None:
        """Ask the scaler, then add or take away engines one by one."""
        run, rule = self.run, self.rule
        mine = [m for m in run.members if m.role == rule.role]
        serving = [m for m in mine if m.state == "up"]
        starting = [m for m in mine if m.state == "starting"]
        answer = self.scaler(serving, len(starting))
        if isinstance(answer, bool) or not isinstance(answer, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"scaling: the scaler gave {answer!r}; expected a number of engines")
        wanted = min(max(answer, rule.min_engines), rule.max_engines)
        there = len(serving) + len(starting)
        for _ in range(wanted - there):
            self.add(mine)
        for _ in range(there - wanted):
            self.remove(mine)
        run.clock.call(self.evaluate, run.clock.now + rule.interval_s, SCALES)

    def add(self, mine: list[Member]) -> None:
        """Add an engine. One that is being drained is taken back first, because it serves at once."""
        draining = [m for m in mine if m.state == "draining"]
        if draining:
            self.run.serve(draining[0])
            return
        member = self.run.join(self.rule.role, "starting")
        turn = member.turns
        at = self.run.clock.now + self.rule.start_s
        self.run.clock.call(lambda: self.run.serve(member) if member.turns == turn else None, at, FAILS)

    def remove(self, mine: list[Member]) -> None:
        """Take an engine away: one that still starts, or else the one with the fewest requests.

        Of several the youngest goes, as Kubernetes removes the newest pods first.
        """
        starting = [m for m in mine if m.state == "starting"]
        if starting:
            starting[-1].become("gone")
            return
        least = min((m for m in mine if m.state == "up"), key=lambda m: (m.outstanding, -m.index))
        least.become("draining" if least.rows else "gone")
