"""`Engine`: the SimPy process of one LLM engine, which decides and computes in turn; and what routers see of it."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

import simpy

from ....errors import InputError
from ....profiles.llm.iteration import IterationCost
from ..decoding.genealogy import Survivors
from ..memory.adapters import AdapterCost
from ..memory.swapping import SwapCost
from ..policy.catalogue import Policy
from ..policy.request import LLMRequest
from ..policy.vllm02 import Vllm02Scheduler
from ..policy.work import Work
from ..times import StepDraws
from .clock import DECIDES, ENDS, Clock
from .stages import pipelined_life

__all__ = ["INTS", "Engine", "EngineKind", "Host"]

INTS = (
    "running",
    "waiting",
    "prefill",
    "decodes",
    "preempted",
    "swap_out",
    "swap_in",
    "used_tokens",
    "wasted_tokens",
    "shared_tokens",
)
"""Integer columns of `Iterations`."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """What engines of one kind have in common: scheduler, options and costs.

    Parameters
    ----------
    policy, config : Policy, its options
        Its scheduler.
    cost : IterationCost
        Seconds of an iteration.
    swap : SwapCost or None
        Seconds of swapping; None: no time.
    padded : bool
        Whether padding counts as computed.
    role : {"both", "prefill", "decode"}
        What it is for.
    survivors : Survivors or None
        Decides which beams survive; with None every beam continues itself.
    times : StepDraws or None
        Factors on the cost of each step; None: it takes its cost.
    adapters : AdapterCost or None
        Seconds of bringing LoRA adapters to the device; None: no time.
    """

    policy: Policy
    config: Any
    cost: IterationCost
    swap: SwapCost | None = None
    padded: bool = False
    role: str = "both"
    survivors: Survivors | None = None
    times: StepDraws | None = None
    adapters: AdapterCost | None = None

    def scheduler(self) -> Any:
        """A fresh scheduler."""
        scheduler = self.policy.scheduler(self.config)
        if isinstance(scheduler, Vllm02Scheduler):
            scheduler.survivors = self.survivors
        return scheduler


class Host(Protocol):
    """The simulation that runs engines, as an engine sees it: a clock, and calls when something has happened."""

    clock: Clock

    def decided(self, engine: Engine, work: Work) -> None:
        """An engine made a decision."""
        ...

    def ended(self, engine: Engine, finished: list[LLMRequest]) -> None:
        """An iteration ended; `finished` have all the tokens that this engine generates for them."""
        ...

    def awaited(self, engine: Engine) -> bool:
        """Whether an engine that cannot go on by itself is waiting for something, such as a transfer of KV blocks."""
        ...


class Engine:
    """One engine: a scheduler, a queue of decided steps, and the columns that record what it did."""

    def __init__(self, run: Host, index: int, kind: EngineKind) -> None:
        self.run, self.index, self.kind = run, index, kind
        self.scheduler = kind.scheduler()
        self.outstanding: int = 0
        self.outstanding_tokens: int = 0
        self.start, self.end = array("d"), array("d")
        self.ints = {name: array("q") for name in INTS}
        self.tokens, self.emitted = array("q"), array("q")  # requests that got a token, and how many in each iteration
        self.preempted = 0  # by steps that took no time: the next iteration tells
        self.used = self.capacity = 0
        self.born = 0  # how often it was started anew
        self.steps = 0  # that computed something
        self.idle: simpy.Event | None = None
        run.clock.process(self.life())

    def put(self, request: LLMRequest) -> None:
        """A request arrives."""
        self.outstanding += 1
        self.outstanding_tokens += request.prompt
        self.scheduler.add(request)
        self.wake()

    def wake(self) -> None:
        """Let an idle engine decide again, because something changed."""
        if self.idle is not None:
            self.run.clock.at(self.idle, self.run.clock.now, DECIDES)
            self.idle = None

    def life(self) -> Generator[simpy.Event, Any, None]:
        """Decide and compute until the engine is started anew. Up to `in_flight` steps are decided ahead."""
        if (stages := getattr(self.kind.config, "pipeline_parallel_size", 1)) > 1:
            yield from pipelined_life(self, stages)
            return
        run, clock, kind, scheduler, born = self.run, self.run.clock, self.kind, self.scheduler, self.born
        busy, work_of, deep = kind.policy.busy, kind.policy.work, kind.policy.in_flight(kind.config)
        flying: deque[tuple[Any, float]] = deque()  # steps that were decided, and when each ends
        stalled, free = False, 0.0
        while True:
            waits = not busy(scheduler)
            if not waits:
                step = kind.policy.decide(scheduler, clock.now)
                work = work_of(scheduler, step, kind.padded)
                start = max(clock.now, free)
                seconds = self.seconds(work, start)
                run.decided(self, work)
                if seconds > 0:
                    free, stalled = start + seconds, False
                    self.record(work, start, free)
                    flying.append((step, free))
                else:
                    self.preempted += len(work.preempted)
                    scheduler.complete(step)
                    if not flying and (stalled or not (work.ignored or work.preempted)):
                        if not run.awaited(self):
                            raise InputError(
                                f"simulate_llm: engine {self.index} has {work.waiting} requests waiting at "
                                f"{clock.now:g} s and none of them fits, with nothing running; give it more blocks "
                                "or a larger max_num_batched_tokens"
                            )
                        waits = True
                    # One step without work is not the end: it may have preempted, and the next one finds the room. A
                    # second one in a row decides on the same state, and would go on for ever.
                    stalled = not (work.ignored or waits)
                if flying and (len(flying) == deep or seconds == 0):
                    step, end = flying.popleft()
                    yield clock.at(clock.event(), end, ENDS)
                    if self.born != born:
                        return
                    run.ended(self, [f.request for f in scheduler.complete(step)])
            if waits:
                self.idle = clock.event()
                yield self.idle
            else:
                yield clock.at(clock.event(), clock.now, DECIDES)
            if self.born != born:
                return

    def stop(self) -> None:
        """The engine fails. The iteration under way gives no tokens, but the time it took stays on record."""
        now, self.idle = self.run.clock.now, None
        self.scheduler = self.kind.scheduler()
        self.born += 1
        self.outstanding = self.outstanding_tokens = self.preempted = self.used = 0
        while self.end and self.end[-1] > now:
            lost = self.emitted.pop()
            if lost:
                del self.tokens[-lost:]
            if self.start[-1] < now:
                self.end[-1] = now
                self.emitted.append(0)
                break
            for column in (self.start, self.end, *self.ints.values()):
                column.pop()

    def begin(self) -> None:
        """The engine is back, with empty memory and an empty prefix cache."""
        clock = self.run.clock
        clock.call(lambda: clock.process(self.life()) and None, clock.now, DECIDES)  # after what arrives now

    def seconds(self, work: Work, start: float) -> float:
        """Seconds of the next iteration, which starts at `start`."""
        kind = self.kind
        seconds = 0.0 if work.iteration is None else kind.cost.seconds(work.iteration)
        if work.iteration is not None and kind.times is not None:
            seconds *= kind.times.ratio(self.index, start, self.steps, bool(work.iteration.prefill))
            self.steps += 1
        if work.iteration is not None and not 0 < seconds < float("inf"):
            raise InputError(f"cost: gave {seconds} seconds for {work.iteration}; expected a finite time > 0")
        if (work.swap_out or work.swap_in) and kind.swap is not None:
            seconds += kind.swap.seconds(work.swap_out + work.swap_in)
        if work.adapter_copies and kind.adapters is not None:
            seconds += kind.adapters.seconds(work.adapter_loads, work.adapter_copies)
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
        ints["shared_tokens"].append(work.shared_tokens)
        self.tokens.extend(work.emits)
        self.emitted.append(len(work.emits))
        self.used, self.capacity = work.used_tokens, work.capacity_tokens

    @property
    def running(self) -> int:
        """Requests that hold device memory."""
        return len(self.scheduler.running)

    @property
    def waiting(self) -> int:
        """Requests that wait for it."""
        return len(self.scheduler.waiting) + len(getattr(self.scheduler, "swapped", ()))

    @property
    def kv_use(self) -> float:
        """Share of the KV memory that is held, after the last decision; 0 without any request."""
        return self.used / self.capacity if self.outstanding and self.capacity else 0.0

    def cached_tokens(self, request: LLMRequest) -> int:
        """Prompt tokens of a request that the prefix cache holds now."""
        known = getattr(self.scheduler, "known_tokens", None)
        return 0 if known is None else known(request)
