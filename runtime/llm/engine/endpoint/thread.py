"""The engine in a thread of its own: takes requests from an event loop, steps, and sends tokens back to it."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .....errors import InputError, MeshwrightError
from .....simulator.llm.policy.request import LLMRequest
from .....simulator.llm.policy.work import Work
from ..adapters.table import Finished
from ..engine import LLMEngine, StepOutput
from ..sampling import Sampling
from .metrics import Counters

__all__ = ["EngineThread", "Ticket"]

Event = tuple[str, Any]
"""("token", (index, token, why it is the last one or None)), ("finished", Finished) or ("error", exception)."""


@dataclass(eq=False, slots=True)
class Ticket:
    """A request under way, as its client sees it.

    Parameters
    ----------
    request, tokens, sampling
        What was asked.
    send : callable
        Takes events, in the client's event loop.
    born, last : float
        Monotonic seconds when it came, and of its latest token.
    """

    request: LLMRequest
    tokens: tuple[int, ...]
    sampling: Sampling
    send: Callable[[Event], None]
    born: float = field(default_factory=time.perf_counter)
    last: float = 0.0


class EngineThread:
    """Steps an engine for as long as it is busy, waits for requests otherwise.

    Parameters
    ----------
    engine : LLMEngine
        Used by nobody else.
    loop : asyncio event loop
        Where events are delivered.
    """

    def __init__(self, engine: LLMEngine, loop: asyncio.AbstractEventLoop) -> None:
        self.engine, self.loop = engine, loop
        self.counters = Counters()
        self.work = Work()
        self.failure: BaseException | None = None
        self._tickets: dict[str | int, Ticket] = {}
        self._commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True, name="llm-engine")
        self._thread.start()

    @property
    def usage(self) -> float:
        """Share of the KV memory in use after the latest decision."""
        return self.work.used_tokens / self.work.capacity_tokens if self.work.capacity_tokens else 0.0

    def check(self, request: LLMRequest) -> None:
        """See that a request can run to its end.

        Raises
        ------
        InputError
            If it cannot.
        """
        policy, config = self.engine.policy, self.engine.config
        why = policy.cannot(config, request) or policy.fatal(config, request)
        if why is not None:
            raise InputError(why)

    def submit(self, ticket: Ticket) -> None:
        """A request comes."""
        self._commands.put(lambda: self._add(ticket))

    def abort(self, request: str | int) -> None:
        """A client is gone: its request leaves the engine, unless it is done."""
        self._commands.put(lambda: self._abort(request))

    def stop(self) -> None:
        """End the thread after the step that runs."""
        self._commands.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                wait = not self.engine.busy
                if wait:  # nothing runs, waits or holds memory: the gauges must say so for as long as that lasts
                    self._idle()
                while True:
                    try:
                        command = self._commands.get(block=wait)
                    except queue.Empty:
                        break
                    if command is None:
                        return
                    command()
                    wait = False
                if self.engine.busy:
                    self._tell(self.engine.step())
        except BaseException as error:  # whoever waits must hear of it, whatever it is
            self.failure = error
            self._idle()
            for ticket in self._tickets.values():
                self._post([(ticket, ("error", error))])
            self._tickets.clear()
            if not isinstance(error, MeshwrightError):
                traceback.print_exception(error)
            while (command := self._commands.get()) is not None:
                command()  # whoever comes now is told, too

    def _idle(self) -> None:
        self.work = Work(capacity_tokens=self.work.capacity_tokens)

    def _add(self, ticket: Ticket) -> None:
        if self.failure is not None:
            self._post([(ticket, ("error", self.failure))])
            return
        try:
            self.engine.add(ticket.request, ticket.tokens, ticket.sampling)
        except InputError as error:
            self._post([(ticket, ("error", error))])
        else:
            self._tickets[ticket.request.id] = ticket

    def _abort(self, request: str | int) -> None:
        if self._tickets.pop(request, None) is not None and self.failure is None:
            self.engine.abort(request)
            self.counters.success["abort"] += 1

    def _tell(self, out: StepOutput) -> None:
        """Count what a step gave, and send it to those who asked."""
        now, counters, events = time.perf_counter(), self.counters, list[tuple[Ticket, Event]]()
        for work in out.work:
            self.work = work
            counters.preemptions += len(work.preempted)
            counters.cache_hits += sum(work.cached.values())
            counters.cache_queries += sum(self._tickets[r].request.prompt for r in work.cached if r in self._tickets)
        ended = {f.request: f.reasons for f in out.finished}
        for emitted in out.emitted:
            ticket = self._tickets.get(emitted.request)
            if ticket is None:
                continue
            if not ticket.last:
                counters.ttft.observe(now - ticket.born)
                counters.prompt_tokens += ticket.request.prompt
            ticket.last = now
            counters.generation_tokens += 1
            reasons = ended.get(emitted.request)
            why = None if reasons is None else reasons[emitted.index]
            events.append((ticket, ("token", (emitted.index, emitted.token, why))))
        for finished in out.finished:
            ticket = self._tickets.pop(finished.request, None)
            if ticket is not None:
                counters.latency.observe(now - ticket.born)
                counters.success[_reason(finished)] += 1
                events.append((ticket, ("finished", finished)))
        for request in out.ignored:
            ticket = self._tickets.pop(request, None)
            if ticket is not None:
                events.append((ticket, ("error", InputError("the request can never run: its prompt does not fit"))))
        if events:
            self._post(events)

    def _post(self, events: list[tuple[Ticket, Event]]) -> None:
        """One call into the event loop for a whole step."""

        def deliver() -> None:
            for ticket, event in events:
                ticket.send(event)

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(deliver)


def _reason(finished: Finished) -> str:
    return "stop" if all(reason == "stop" for reason in finished.reasons) else "length"
