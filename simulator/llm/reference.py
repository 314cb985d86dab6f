"""The SimPy model of LLM serving, iteration by iteration: the reference that a faster engine must equal.

One process per engine; none per request. Decisions come from the clock-free policies; `IterationCost` says how long
what they decide takes; tokens appear when the iteration ends. At one instant iterations end first, then requests
arrive, then engines decide, so a request that arrives during an iteration joins the next one.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Generator
from heapq import heappush
from typing import Any

import numpy as np
import simpy

from ...errors import InputError
from .iterations import Iterations, TokenRuns
from .request import LLMRequest
from .work import Work
from .world import Records, World

__all__ = ["run_reference"]

_ENDS, _ARRIVES, _DECIDES = 1, 2, 3  # priorities at one instant
_INTS = ("running", "waiting", "prefill", "decodes", "preempted", "swap_out", "swap_in", "used_tokens", "wasted_tokens")


class _Clock(simpy.Environment):
    def at(self, event: simpy.Event, time: float, priority: int) -> simpy.Event:
        """Let `event` happen at exactly `time`; what happens at one instant happens in order of priority."""
        event._ok, event._value = True, None
        heappush(self._queue, (time, priority, next(self._eid), event))  # type: ignore[misc]
        return event

    def call(self, function: Callable[[], None], time: float, priority: int) -> None:
        """Call a function at `time`."""
        event = self.at(self.event(), time, priority)
        assert event.callbacks is not None
        event.callbacks.append(lambda _: function())


class _Engine:
    """One engine: decides, computes, for ever."""

    def __init__(self, run: _Run, index: int) -> None:
        self.run, self.index = run, index
        self.scheduler = run.world.policy.scheduler(run.world.config)
        self.outstanding = self.outstanding_tokens = 0
        self.start, self.end = array("d"), array("d")
        self.ints = {name: array("q") for name in _INTS}
        self.tokens, self.emitted = array("q"), array("q")  # requests that got a token, and how many in each iteration
        self.preempted = 0  # by steps that took no time: the next iteration tells
        self.idle: simpy.Event | None = None
        run.clock.process(self.life())

    def put(self, request: LLMRequest) -> None:
        """A request arrives."""
        self.outstanding += 1
        self.outstanding_tokens += request.prompt
        self.scheduler.add(request)
        if self.idle is not None:
            self.run.clock.at(self.idle, self.run.clock.now, _DECIDES)
            self.idle = None

    def life(self) -> Generator[simpy.Event, Any, None]:
        run, clock, world, scheduler = self.run, self.run.clock, self.run.world, self.scheduler
        busy, work_of, deep = world.policy.busy, world.policy.work, world.policy.in_flight(world.config)
        flying: deque[tuple[Any, float]] = deque()  # steps that were decided, and when each ends
        stalled, free = False, 0.0
        while True:
            if busy(scheduler):
                step = scheduler.schedule()
                work = work_of(scheduler, step, world.padded)
                seconds = self.seconds(work)
                run.decided(work, clock.now)
                if seconds > 0:
                    start = max(clock.now, free)
                    free, stalled = start + seconds, False
                    self.record(work, start, free)
                    flying.append((step, free))
                else:
                    self.preempted += len(work.preempted)
                    scheduler.complete(step)
                    if not flying and (stalled or not (work.ignored or work.preempted)):
                        raise InputError(
                            f"simulate_llm: engine {self.index} has {work.waiting} requests waiting at {clock.now:g} s "
                            "and none of them fits, with nothing running; give it more blocks or a larger "
                            "max_num_batched_tokens"
                        )
                    stalled = not work.ignored
                if flying and (len(flying) == deep or seconds == 0):
                    step, end = flying.popleft()
                    yield clock.at(clock.event(), end, _ENDS)
                    run.ended(self, [f.request for f in scheduler.complete(step)])
                yield clock.at(clock.event(), clock.now, _DECIDES)
            else:
                self.idle = clock.event()
                yield self.idle

    def seconds(self, work: Work) -> float:
        """Seconds from the decision to the end of the iteration."""
        world = self.run.world
        seconds = 0.0 if work.iteration is None else world.cost.seconds(work.iteration)
        if work.iteration is not None and not 0 < seconds < float("inf"):
            raise InputError(f"cost: gave {seconds} seconds for {work.iteration}; expected a finite time > 0")
        if (work.swap_out or work.swap_in) and world.swap is not None:
            seconds += world.swap.seconds(work.swap_out + work.swap_in)
        return seconds

    def record(self, work: Work, start: float, end: float) -> None:
        """Note an iteration."""
        self.start.append(start)
        self.end.append(end)
        ints, iteration = self.ints, work.iteration
        ints["running"].append(work.running)
        ints["waiting"].append(work.waiting)
        ints["prefill"].append(0 if iteration is None else iteration.tokens - iteration.decodes)
        ints["decodes"].append(0 if iteration is None else iteration.decodes)
        ints["preempted"].append(len(work.preempted) + self.preempted)
        self.preempted = 0
        ints["swap_out"].append(work.swap_out)
        ints["swap_in"].append(work.swap_in)
        ints["used_tokens"].append(work.used_tokens)
        ints["wasted_tokens"].append(work.wasted_tokens)
        self.tokens.extend(work.emits)
        self.emitted.append(len(work.emits))
        self.run.capacity = work.capacity_tokens


class _Run:
    """One simulation under way: its clock, its engines, and what is known of each request."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = _Clock()
        self.records = Records(len(world.trace))
        self.capacity = 0
        self.engines = [_Engine(self, i) for i in range(world.engines)]
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

    def arrivals(self) -> Generator[simpy.Event, Any, None]:
        """Open loop: requests arrive when they arrive."""
        times = self.world.trace.arrival
        for row in self.first:
            yield self.clock.at(self.clock.event(), float(times[row]), _ARRIVES)
            self.arrive(row)

    def next_of_loop(self) -> None:
        """Closed loop: another request takes the place of one that is done."""
        if self.sent < len(self.first):
            row = self.first[self.sent]
            self.sent += 1
            self.clock.call(lambda: self.arrive(row), self.clock.now, _ARRIVES)

    def arrive(self, row: int) -> None:
        """A request is sent to an engine, unless none can take it."""
        now = self.clock.now
        self.records.arrival[row] = now
        if row in self.world.dropped:
            self.records.ignored[row] = True
            self.done(row)
            return
        request = self.world.trace.request(row, now)
        chosen = self.world.router(request, self.engines)
        self.records.engine[row] = chosen
        self.engines[chosen].put(request)

    def decided(self, work: Work, now: float) -> None:
        """A decision was made."""
        records = self.records
        for row in work.admitted:
            if np.isnan(records.scheduled[row]):
                records.scheduled[row] = now
        for row in work.preempted:
            records.preemptions[row] += 1
        for row, tokens in work.cached.items():
            records.cached_tokens[row] = tokens
        for row in work.ignored:
            records.ignored[row] = True
            self.leave(self.engines[records.engine[row]], row)

    def ended(self, engine: _Engine, finished: list[LLMRequest]) -> None:
        """An iteration ended: some requests have all their tokens."""
        for request in finished:
            self.records.finish[int(request.id)] = self.clock.now
            self.leave(engine, int(request.id))

    def leave(self, engine: _Engine, row: int) -> None:
        """A request leaves its engine."""
        engine.outstanding -= 1
        engine.outstanding_tokens -= int(self.world.trace.prompt_tokens[row])
        self.done(row)

    def done(self, row: int) -> None:
        """What waited for a request may come."""
        now, trace = self.clock.now, self.world.trace
        followers = self.followers.get(row, ())
        for follower in followers:
            think = 0.0 if trace.think_s is None else float(trace.think_s[follower])
            at = now + think if self.world.concurrency is not None else max(now + think, float(trace.arrival[follower]))
            self.clock.call(lambda row=follower: self.arrive(row), at, _ARRIVES)
        if self.world.concurrency is not None and not followers:
            self.next_of_loop()


def run_reference(world: World, until: float | None = None) -> tuple[Records, Iterations, TokenRuns]:
    """Serve the requests, to the end or until some time (seconds).

    Raises
    ------
    InputError
        If the rest can never run, or the cost of an iteration is no time.
    """
    run = _Run(world)
    run.clock.run(until)
    records, horizon = run.records, float("inf") if until is None else until
    columns: dict[str, list[Any]] = {name: [] for name in ("engine", "start", "end", *_INTS)}
    who: list[Any] = []
    when: list[Any] = []
    rows = 0
    for engine in run.engines:
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
        capacity_tokens=run.capacity,
        engines=world.engines,
    )
    runs = TokenRuns.of_tokens(np.concatenate(who), np.concatenate(when))
    seen, at = np.unique(runs.request, return_index=True)
    records.first_token[seen] = iterations.end[runs.first[at]]
    np.add.at(records.generated, runs.request, runs.last - runs.first + 1)
    return records, iterations, runs
