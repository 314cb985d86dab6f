"""Engines that share devices: a group of devices computes the iterations of its engines in turn.

The memory of a group is split among its engines beforehand: each has a block pool of its own. Time is not split: when
the first stage of the group is free, the next engine in turn (round robin among those that have requests and no
iteration under way) decides its iteration with the requests that have arrived by then, and the group computes it whole.
A pipeline takes the next iteration when its first stage is free, and an iteration waits at a stage until the one before
it has left (a flow shop, first in, first out). Switching between engines costs nothing: all weights stay in memory.

An engine with `stages` stages has as many batches in flight as stages: schedulers of their own, as pipelined engines
have; each holds its share of the memory.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from ...errors import InputError
from ...profiles.llm.iteration import Iteration, IterationCost
from ...reprs import Shown
from .fleet.clock import DECIDES, ENDS, Clock
from .fleet.engine import Engine, EngineKind
from .fleet.stages import stage_seconds
from .policy.catalogue import policy_config, policy_named
from .reference import Run, gather
from .result.iterations import Iterations, TokenRuns
from .world import Records, World

__all__ = ["Outcome", "SharedEngine", "Tenant", "run_turns"]

Outcome = tuple[Records, Iterations, TokenRuns]
"""What became of one model's requests."""


@dataclass(frozen=True, slots=True, repr=False)
class SharedEngine(Shown):
    """An engine on a group of devices, which it may share with other engines.

    Parameters
    ----------
    model : str
        Name of the workload that it serves.
    group : hashable
        Identifies its devices: engines with equal groups take turns on them.
    policy : str
        Its scheduling policy, a name of `POLICIES`.
    config : mapping or dataclass
        Options of the policy; each batch in flight has a scheduler with these options.
    cost : IterationCost
        Seconds of an iteration through all stages. Its method `interval`, if it has one, gives those of the slowest
        stage.
    stages : int
        Pipeline stages; as many batches are in flight.

    Raises
    ------
    InputError
        On an unknown policy or option, no stage, or asynchronous scheduling.
    """

    model: str
    group: Any
    policy: str
    config: Any
    cost: IterationCost
    stages: int = 1

    def __post_init__(self) -> None:
        options = policy_config(policy_named(self.policy).config, self.config)
        object.__setattr__(self, "config", options)
        if isinstance(self.stages, bool) or self.stages < 1:
            raise InputError(f"stages: expected an integer >= 1 (got {self.stages!r})")
        if policy_named(self.policy).in_flight(options) > 1:
            raise InputError(
                "async_scheduling, pipeline_parallel_size: engines that take turns cannot schedule ahead; turn the "
                "first off, and say how many stages there are by stages"
            )

    def stage_seconds(self, iteration: Iteration) -> tuple[float, ...]:
        """Seconds of an iteration in each stage; the last one, which has the output head, is the slowest."""
        seconds = self.cost.seconds(iteration)
        if not 0 < seconds < float("inf"):
            raise InputError(f"cost: gave {seconds} seconds for {iteration}; expected a finite time > 0")
        return stage_seconds(self.cost, iteration, seconds, self.stages)


@dataclass(frozen=True)
class Tenant:
    """A model on devices that others may use.

    Parameters
    ----------
    name : str
        The model's name.
    world : World
        Its requests and its router.
    engines : tuple of SharedEngine
        Its engines.
    """

    name: str
    world: World
    engines: tuple[SharedEngine, ...]


class _Batch(Engine):
    """One scheduler of an engine: it decides when its group says so."""

    def __init__(self, run: _ModelRun, index: int, kind: EngineKind, group: _Group, told: SharedEngine) -> None:
        self.group, self.told, self.flying, self.stalled = group, told, False, False
        super().__init__(run, index, kind)
        group.batches.append(self)

    def life(self) -> Generator[simpy.Event, Any, None]:
        """It has no process of its own: the group is the process."""
        return
        yield

    def wake(self) -> None:
        """A request arrived: an idle group decides again."""
        self.group.wake()

    @property
    def ready(self) -> bool:
        """Whether it may decide."""
        return not self.flying and self.kind.policy.busy(self.scheduler)


class _Group:
    """Devices that compute the iterations of several schedulers in turn."""

    def __init__(self, clock: Clock, stages: int) -> None:
        self.clock, self.free = clock, [0.0] * stages
        self.batches: list[_Batch] = []
        self.last = -1
        self.idle: simpy.Event | None = None
        clock.process(self.life())

    def wake(self) -> None:
        """Something changed."""
        if self.idle is not None:
            self.clock.at(self.idle, self.clock.now, DECIDES)
            self.idle = None

    def life(self) -> Generator[simpy.Event, Any, None]:
        """Let the next batch in turn decide, wait until the first stage is free, and go on."""
        clock = self.clock
        while True:
            batch = self.next()
            if batch is None:
                self.idle = clock.event()
                yield self.idle
            else:
                self.decide(batch)
                yield clock.at(clock.event(), max(clock.now, self.free[0]), DECIDES)

    def next(self) -> _Batch | None:
        """The next in turn after the last one."""
        n = len(self.batches)
        for step in range(1, n + 1):
            at = (self.last + step) % n
            if self.batches[at].ready:
                self.last = at
                return self.batches[at]
        return None

    def decide(self, batch: _Batch) -> None:
        """One scheduling decision, and its way through the stages."""
        run, scheduler, now = batch.run, batch.scheduler, self.clock.now
        step = batch.kind.policy.decide(scheduler, now)
        work = batch.kind.policy.work(scheduler, step, batch.kind.padded)
        run.decided(batch, work)
        if work.iteration is None:
            batch.preempted += len(work.preempted)
            scheduler.complete(step)
            if batch.stalled or not (work.ignored or work.preempted):
                raise InputError(
                    f"simulate_shared: engine {batch.index} of {batch.told.model!r} has {work.waiting} requests "
                    f"waiting at {now:g} s and none of them fits, with nothing running; give it more blocks"
                )
            batch.stalled = not work.ignored
            return
        end = now
        for stage, seconds in enumerate(batch.told.stage_seconds(work.iteration)):
            end = max(end, self.free[stage]) + seconds
            self.free[stage] = end
        batch.flying, batch.stalled = True, False
        batch.record(work, now, end)

        def ended() -> None:
            batch.flying = False
            run.ended(batch, [f.request for f in scheduler.complete(step)])
            self.wake()

        self.clock.call(ended, end, ENDS)


class _ModelRun(Run):
    """The requests of one model, on engines whose groups others may use."""

    def __init__(self, tenant: Tenant, clock: Clock, groups: dict[Any, _Group]) -> None:
        self.told, self.groups = tenant.engines, groups
        super().__init__(tenant.world, clock)

    def populate(self) -> None:
        for told in self.told:
            if told.group not in self.groups:
                self.groups[told.group] = _Group(self.clock, told.stages)
            group, kind = self.groups[told.group], EngineKind(policy_named(told.policy), told.config, told.cost)
            for _ in range(told.stages):
                self.engines.append(_Batch(self, len(self.engines), kind, group, told))


def run_turns(tenants: Sequence[Tenant], until: float | None) -> list[Outcome]:
    """Serve the requests of all models in SimPy, to the end or until some time (seconds).

    Raises
    ------
    InputError
        If the rest can never run, or the cost of an iteration is no time.
    """
    clock, groups = Clock(), dict[Any, _Group]()
    served = [_ModelRun(tenant, clock, groups) for tenant in tenants]
    clock.run(until)
    return [gather(run.records, run.engines, run.capacity, until) for run in served]
