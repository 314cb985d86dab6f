"""The stages of a pipelined engine: iterations go through them one behind the other, first in first out (flow shop)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import simpy

from ....errors import InputError
from ....profiles.llm.iteration import Iteration, IterationCost
from .clock import DECIDES, ENDS

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["Stages", "pipelined_life", "stage_seconds"]


def stage_seconds(cost: IterationCost, iteration: Iteration | None, seconds: float, stages: int) -> tuple[float, ...]:
    """Seconds of an iteration in each stage; the last one, which has the output head, is the slowest.

    Parameters
    ----------
    cost : IterationCost
        Its method `interval`, if it has one, gives the seconds of the slowest stage; without it all are equal.
    iteration : Iteration or None
        What is computed; None: only blocks are moved.
    seconds : float
        Of all stages together, whatever comes on top of the cost included.
    stages : int
        How many there are.
    """
    if stages == 1:
        return (seconds,)
    interval: Callable[[Iteration], float] | None = getattr(cost, "interval", None)
    if interval is None or iteration is None:
        return (seconds / stages,) * stages
    slowest = interval(iteration) * (seconds / cost.seconds(iteration))
    return (*[(seconds - slowest) / (stages - 1)] * (stages - 1), slowest)


class Stages:
    """When each stage of an engine is free.

    Parameters
    ----------
    cost : IterationCost
        Seconds of iterations.
    count : int
        Stages.
    """

    def __init__(self, cost: IterationCost, count: int) -> None:
        self.cost = cost
        self._free = [0.0] * count

    @property
    def free(self) -> float:
        """When the first stage is free, seconds."""
        return self._free[0]

    def enter(self, iteration: Iteration | None, seconds: float, start: float) -> tuple[float, float]:
        """Send an iteration through.

        Returns
        -------
        (float, float)
            When it begins and ends. While others are before it in the pipeline it counts from the end of these, so that
            an engine's iterations do not overlap in its records.
        """
        before, end = self._free[-1], start
        for stage, part in enumerate(stage_seconds(self.cost, iteration, seconds, len(self._free))):
            end = self._free[stage] = max(end, self._free[stage]) + part
        return max(start, before), end


def pipelined_life(engine: Engine, count: int) -> Generator[simpy.Event, Any, None]:
    """Decide and compute until the engine is started anew, as vLLM's ``step_with_batch_queue``.

    The queue holds as many steps as may be under way, those without work included. While it has room the next one is
    decided at once; else the oldest is waited for.

    Raises
    ------
    InputError
        If nothing is under way and nothing can be.
    """
    run, clock, kind, scheduler, born = engine.run, engine.run.clock, engine.kind, engine.scheduler, engine.born
    busy, deep, stages = kind.policy.busy, kind.policy.in_flight(kind.config), Stages(kind.cost, count)
    flying: deque[tuple[Any, float | None]] = deque()  # steps that were decided, and when each ends
    empty = 0  # steps without work since the last one that had some
    while engine.born == born:
        if not flying and not busy(scheduler):
            engine.idle = clock.event()
            yield engine.idle
            continue
        if busy(scheduler):
            step = kind.policy.decide(scheduler, clock.now)
            work = kind.policy.work(scheduler, step, kind.padded)
            start, end = max(clock.now, stages.free), None
            seconds = engine.seconds(work, start)
            run.decided(engine, work)
            if seconds > 0:
                start, end = stages.enter(work.iteration, seconds, start)
                engine.record(work, start, end)
                empty = 0
            else:
                engine.preempted += len(work.preempted)
                empty += 1
            flying.append((step, end))
            # A decode may have to wait for as many steps as there are stages, whether they have work or not.
            if empty > deep + count and not any(e for _, e in flying) and not run.awaited(engine):
                raise InputError(
                    f"simulate_llm: engine {engine.index} has {work.waiting} requests waiting at {clock.now:g} s and "
                    "none of them fits, with nothing running; give it more blocks or a larger max_num_batched_tokens"
                )
            if len(flying) < deep and busy(scheduler):
                yield clock.at(clock.event(), clock.now, DECIDES)
                continue
        step, end = flying.popleft()
        if end is not None:
            yield clock.at(clock.event(), end, ENDS)
            if engine.born != born:
                return
        run.ended(engine, [f.request for f in scheduler.complete(step)])
        yield clock.at(clock.event(), clock.now, DECIDES)
