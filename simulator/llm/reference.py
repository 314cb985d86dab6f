"""The SimPy model of LLM serving, iteration by iteration: the reference that a faster engine must equal.

One process per engine; none per request. Decisions come from the clock-free policies; `IterationCost` says how long
what they decide takes; tokens appear when the iteration ends. At one instant iterations end first, then requests
arrive, then engines decide, so a request that arrives during an iteration joins the next one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from .fleet.clock import ARRIVES, Clock
from .fleet.engine import INTS, Engine, EngineKind
from .policy.request import LLMRequest
from .policy.work import Work
from .result.iterations import Iterations, TokenRuns
from .world import Records, World

__all__ = ["Run", "gather", "run_reference"]


class Run:
    """A simulation in progress: its clock, its engines, and the records of its requests."""

    def __init__(self, world: World, clock: Clock | None = None) -> None:
        self.world = world
        self.clock = clock or Clock()
        self.records = Records(len(world.trace))
        self.capacity = 0
        self.engines: list[Engine] = []
        self.populate()
        after = world.trace.after
        self.followers: dict[int, list[int]] = {}
        self.first: list[int] = []  # rows that wait for nobody, in order
        for row in range(len(world.trace)):
            previous = -1 if after is None else int(after[row])
            (self.first if previous < 0 else self.followers.setdefault(previous, [])).append(row)
        self.sent = 0
        if world.concurrency is None:
            self.clock.process(self.arrivals())
        else:
            for _ in range(min(world.concurrency, len(self.first))):
                self.next_of_loop()

    def populate(self) -> None:
        """The engines."""
        world = self.world
        kind = EngineKind(
            world.policy,
            world.config,
            world.cost,
            world.swap,
            world.padded,
            survivors=world.survivors,
            times=world.times,
            adapters=world.adapters,
        )
        self.engines += [Engine(self, i, kind) for i in range(world.engines)]

    def arrivals(self) -> Generator[simpy.Event, Any, None]:
        """Open loop: requests arrive at the times of the trace, whatever the engines do."""
        times = self.world.trace.arrival
        for row in self.first:
            yield self.clock.at(self.clock.event(), float(times[row]), ARRIVES)
            self.arrive(row)

    def next_of_loop(self) -> None:
        """Closed loop: another request takes the place of one that is done."""
        if self.sent < len(self.first):
            row = self.first[self.sent]
            self.sent += 1
            self.clock.call(lambda: self.arrive(row), self.clock.now, ARRIVES)

    def arrive(self, row: int) -> None:
        """A request is sent to an engine, unless none can take it."""
        now = self.clock.now
        self.records.arrival[row] = now
        if row in self.world.dropped:
            self.records.ignored[row] = True
            self.done(row)
            return
        self.send(self.world.trace.request(row, now))

    def send(self, request: LLMRequest) -> None:
        """A request goes to an engine."""
        chosen = self.world.router(request, self.engines)
        self.records.engine[int(request.id)] = chosen
        self.engines[chosen].put(request)

    def awaited(self, engine: Engine) -> bool:
        """Engines share nothing: what cannot go on by itself never will."""
        return False

    def decided(self, engine: Engine, work: Work) -> None:
        """A decision was made."""
        records, now = self.records, self.clock.now
        if work.iteration is not None:
            self.capacity = work.capacity_tokens
        for row in work.admitted:
            if np.isnan(records.scheduled[row]):
                records.scheduled[row] = now
        for row in work.preempted:
            records.preemptions[row] += 1
        for row, tokens in work.cached.items():
            records.cached_tokens[row] = tokens
        for row in work.ignored:
            records.ignored[row] = True
            self.leave(engine, row)

    def ended(self, engine: Engine, finished: list[LLMRequest]) -> None:
        """An iteration ended: some requests have all their tokens."""
        for request in finished:
            self.records.finish[int(request.id)] = self.clock.now
            self.leave(engine, int(request.id))

    def leave(self, engine: Engine, row: int) -> None:
        """A request leaves its engine."""
        engine.outstanding -= 1
        engine.outstanding_tokens -= int(self.world.trace.prompt_tokens[row])
        self.done(row)

    def done(self, row: int) -> None:
        """A request is done: schedule the turns that follow it, or in a closed loop the next request."""
        now, trace = self.clock.now, self.world.trace
        followers = self.followers.get(row, ())
        for follower in followers:
            think = 0.0 if trace.think_s is None else float(trace.think_s[follower])
            at = now + think if self.world.concurrency is not None else max(now + think, float(trace.arrival[follower]))
            self.clock.call(lambda row=follower: self.arrive(row), at, ARRIVES)
        if self.world.concurrency is not None and not followers:
            self.next_of_loop()


def run_reference(world: World, until: float | None = None) -> tuple[Records, Iterations, TokenRuns]:
    """Serve the requests, to the end or until some time (seconds).

    Raises
    ------
    InputError
        If the rest can never run, or the cost of an iteration is no time.
    """
    run = Run(world)
    run.clock.run(until)
    return gather(run.records, run.engines, run.capacity, until)


def gather(
    records: Records,
    engines: Sequence[Engine],
    capacity: int,
    until: float | None,
    since: npt.NDArray[np.float64] | None = None,
) -> tuple[Records, Iterations, TokenRuns]:
    """Join what all engines did until some time, and fill the columns of `records` that follow from it.

    `since`, of requests that go from engine to engine: the time up to which each one's tokens are lost.
    """
    horizon = float("inf") if until is None else until
    columns: dict[str, list[Any]] = {name: [] for name in ("engine", "start", "end", *INTS)}
    who: list[Any] = []
    when: list[Any] = []
    rows = 0
    for engine in engines:
        end = np.array(engine.end)
        m = int(np.searchsorted(end, horizon))  # what had not ended by then has given no tokens
        columns["engine"].append(np.full(m, engine.index, dtype=np.int64))
        columns["start"].append(np.array(engine.start)[:m])
        columns["end"].append(end[:m])
        for name, values in engine.ints.items():
            columns[name].append(np.array(values, dtype=np.int64)[:m])
        emitted = np.array(engine.emitted, dtype=np.int64)[:m]
        who.append(np.array(engine.tokens, dtype=np.int64)[: int(emitted.sum())])
        when.append(np.repeat(np.arange(rows, rows + m), emitted))
        rows += m
    iterations = Iterations(
        **{name: np.concatenate(parts) for name, parts in columns.items()},
        capacity_tokens=capacity,
        engines=len(engines),
    )
    request, iteration = np.concatenate(who), np.concatenate(when)
    if since is not None:
        times = iterations.end[iteration]
        order = np.argsort(times, kind="stable")
        order = order[times[order] > since[request[order]]]
        request, iteration = request[order], iteration[order]
    runs = TokenRuns.of_tokens(request, iteration)
    seen, at = np.unique(runs.request, return_index=True)
    records.first_token[seen] = iterations.end[runs.first[at]]
    np.add.at(records.generated, runs.request, runs.last - runs.first + 1)
    return records, iterations, runs
