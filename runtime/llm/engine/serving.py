"""`serve_trace`: a workload through the real engine, in real time; the result is the simulator's own."""

from __future__ import annotations

import heapq
import time
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import InputError
from ....simulator.llm.policy.work import Work
from ....simulator.llm.result.columns import LLMResult
from ....simulator.llm.result.iterations import Iterations, TokenRuns
from ....simulator.llm.workload.requests import LLMTrace
from ....simulator.llm.world import Records
from .engine import LLMEngine, StepOutput
from .prompts import drawn_prompt, mapped_prompt
from .sampling import GREEDY, Sampling
from .step_log import StepLog

__all__ = ["Serving", "serve_trace"]

_WORK = ("running", "waiting", "swap_out", "swap_in", "used_tokens", "wasted_tokens", "shared_tokens")
PROGRESS_S = 0.5
"""Seconds between two calls of `progress`, and the longest sleep, so that Ctrl-C is heard."""


class Serving:
    """One workload under way: what is due, and what came of it so far."""

    def __init__(
        self, engine: LLMEngine, trace: LLMTrace, concurrency: int | None, sampling: Sampling, log: StepLog | None
    ) -> None:
        self.engine, self.trace, self.sampling, self.log = engine, trace, sampling, log
        self.concurrency = concurrency
        self.records = Records(len(trace))
        self.columns: dict[str, array[Any]] = {
            "start": array("d"), "end": array("d"), "prefill": array("q"), "decodes": array("q"),
            "preempted": array("q"), **{name: array("q") for name in _WORK},
        }  # fmt: skip
        self.tokens, self.emitted = array("q"), array("q")
        self.capacity = self.done = self.lost = 0
        self.said: dict[int, list[int]] = {}
        self.followers: dict[int, list[int]] = {}
        self.first: list[int] = []
        self.due: list[tuple[float, int]] = []
        for row in range(len(trace)):
            previous = -1 if trace.after is None else int(trace.after[row])
            (self.first if previous < 0 else self.followers.setdefault(previous, [])).append(row)
        self.sent = 0
        if concurrency is None:
            self.due = [(float(trace.arrival[row]), row) for row in self.first]
            heapq.heapify(self.due)
        else:
            for _ in range(min(concurrency, len(self.first))):
                self.next_of_loop(0.0)
        self.zero = time.perf_counter()

    def now(self) -> float:
        """Seconds since the beginning, by a clock that never goes back."""
        return time.perf_counter() - self.zero

    def next_of_loop(self, now: float) -> None:
        """Closed loop: another request takes the place of one that is done."""
        if self.sent < len(self.first):
            heapq.heappush(self.due, (now, self.first[self.sent]))
            self.sent += 1

    def prompt(self, row: int) -> list[int]:
        """Token ids of a row's prompt; what was said before in its conversation comes first."""
        trace, engine = self.trace, self.engine
        length, vocab, seed = int(trace.prompt_tokens[row]), engine.spec.vocab, engine.options.seed
        ids = trace.tokens(row)
        if ids is not None:
            return mapped_prompt(ids, vocab, seed)
        before = [] if trace.after is None or not trace.dialogue else self.said.get(int(trace.after[row]), [])
        return (before + drawn_prompt(seed, row, max(0, length - len(before)), vocab))[:length]

    def arrivals(self) -> None:
        """Hand over what has arrived by now; its time of arrival is the one it was due at."""
        now = self.now()
        while self.due and self.due[0][0] <= now:
            at, row = heapq.heappop(self.due)
            tokens = self.prompt(row)
            self.records.arrival[row], self.records.engine[row] = at, 0
            if row in self.followers:
                self.said[row] = tokens
            self.engine.add(self.trace.request(row, at), tokens, self.sampling)

    def step(self) -> None:
        """One step of the engine."""
        start = self.now()
        out = self.engine.step()
        end = self.now()
        records = self.records
        for work in out.work:
            self.capacity = work.capacity_tokens
            self.lost += len(work.preempted)
            for row in work.admitted:
                if np.isnan(records.scheduled[row]):
                    records.scheduled[row] = start
            for row in work.preempted:
                records.preemptions[row] += 1
            for row, tokens in work.cached.items():
                records.cached_tokens[row] = tokens
        for row in out.ignored:
            records.ignored[int(row)] = True
            self.leave(int(row), end)
        if out.ran is not None:
            self.record(out, out.ran, start, end)
        for finished in out.finished:
            row = int(finished.request)
            records.finish[row] = end
            if row in self.said:
                self.said[row] = self.said[row] + list(finished.outputs[0])
            self.leave(row, end)

    def record(self, out: StepOutput, work: Work, start: float, end: float) -> None:
        """Note an iteration."""
        columns, iteration = self.columns, work.iteration
        columns["start"].append(start)
        columns["end"].append(end)
        columns["prefill"].append(0 if iteration is None else iteration.tokens - iteration.decodes)
        columns["decodes"].append(0 if iteration is None else iteration.decodes)
        columns["preempted"].append(self.lost)
        self.lost = 0
        for name in _WORK:
            columns[name].append(getattr(work, name))
        emits = [row for row in work.emits if np.isnan(self.records.finish[row])]
        self.tokens.extend(emits)
        self.emitted.append(len(emits))
        if self.log is not None:
            self.log.note(out, work, end - start)

    def leave(self, row: int, now: float) -> None:
        """A request is done: what waited for it may come."""
        self.done += 1
        trace, followers = self.trace, self.followers.get(row, ())
        for follower in followers:
            at = now + (0.0 if trace.think_s is None else float(trace.think_s[follower]))
            at = at if self.concurrency is not None else max(at, float(trace.arrival[follower]))
            self.said[int(row)] = self.said.get(row, [])
            heapq.heappush(self.due, (at, follower))
        if self.concurrency is not None and not followers:
            self.next_of_loop(now)

    def run(self, until: float | None = None, progress: Callable[[float, int, int], None] | None = None) -> None:
        """Serve what is due, to the end or until some time (seconds)."""
        told = 0.0
        while self.due or self.engine.busy:
            now = self.now()
            if until is not None and now >= until:
                break
            self.arrivals()
            if self.engine.busy:
                self.step()
            elif self.due:
                time.sleep(max(0.0, min(self.due[0][0] - self.now(), PROGRESS_S)))
            if progress is not None and now - told >= PROGRESS_S:
                told = now
                progress(now, self.done, len(self.trace))

    def result(self) -> LLMResult:
        """What came of it."""
        m = len(self.columns["end"])
        columns: dict[str, Any] = {name: np.array(column) for name, column in self.columns.items()}
        iterations = Iterations(engine=np.zeros(m, dtype=np.int64), capacity_tokens=self.capacity, engines=1, **columns)
        runs = TokenRuns.of_tokens(
            np.array(self.tokens, dtype=np.int64),
            np.repeat(np.arange(m), np.array(self.emitted, dtype=np.int64)),
        )
        records = self.records
        seen, at = np.unique(runs.request, return_index=True)
        records.first_token[seen] = iterations.end[runs.first[at]]
        np.add.at(records.generated, runs.request, runs.last - runs.first + 1)
        return LLMResult(
            trace=self.trace,
            arrival=records.arrival,
            **records.columns(),
            iterations=iterations,
            runs=runs,
            policy=self.engine.name,
            made_by="engine",
        )


def serve_trace(
    engine: LLMEngine,
    trace: LLMTrace,
    *,
    concurrency: int | None = None,
    sampling: Sampling = GREEDY,
    until: float | None = None,
    warmup: bool = True,
    log: StepLog | None = None,
    progress: Callable[[float, int, int], None] | None = None,
) -> LLMResult:
    """Serve a workload for real, to its end.

    Requests arrive at the trace's times, or, in a closed loop, when one before is done. Prompts that the trace gives
    no ids for are drawn at random; a turn of a conversation begins with what was really said before.

    Parameters
    ----------
    engine : LLMEngine
        Idle.
    trace : LLMTrace
        The requests.
    concurrency : int, optional
        Closed loop: so many requests (or conversations) at a time; arrivals are not looked at.
    sampling : Sampling
        How tokens are chosen.
    until : float, optional
        Stop at the end of the step that runs then, seconds; what is under way is aborted and stays unfinished.
    warmup : bool
        Run one request first, so that no measured step meets cold code.
    log : StepLog, optional
        Where to keep where the time of every iteration went.
    progress : callable, optional
        Called now and then with seconds, requests done, and requests in all.

    Returns
    -------
    LLMResult
        ``made_by="engine"``; times are those of a monotonic clock since the beginning.

    Raises
    ------
    InputError
        On a request that cannot run to its end, before anything runs; or an engine that is busy.
    """
    if engine.busy:
        raise InputError("serve_trace: the engine is busy; give one that is idle")
    if concurrency is not None and (isinstance(concurrency, bool) or concurrency < 1):
        raise InputError(f"concurrency: expected an integer >= 1 (got {concurrency!r})")
    if until is not None and not until > 0:
        raise InputError(f"until: expected seconds > 0 (got {until})")
    _check(engine, trace)
    if warmup:
        warm(engine)
    serving = Serving(engine, trace, concurrency, sampling, log)
    serving.run(until, progress)
    result = serving.result()
    for row in np.flatnonzero(result.unfinished).tolist():
        engine.abort(row)
    return result


def warm(engine: LLMEngine) -> None:
    """Run a request of a few tokens through a prompt and decode steps; the prefix cache keeps nothing of use."""
    from ....simulator.llm.policy.request import LLMRequest

    longest = engine.memory.longest
    prompt = max(1, min(8, longest - 4))
    engine.add(
        LLMRequest("warm-up", prompt, min(4, longest - prompt)), drawn_prompt(0, "warm-up", prompt, engine.spec.vocab)
    )
    while engine.busy:
        engine.step()


def _check(engine: LLMEngine, trace: LLMTrace) -> None:
    seen: set[tuple[int, int, int]] = set()
    for row in range(len(trace)):
        request = trace.request(row)
        shape = request.prompt, request.output, request.best_of
        if shape in seen:
            continue
        seen.add(shape)
        why = engine.policy.cannot(engine.config, request) or engine.policy.fatal(engine.config, request)
        if why is not None:
            raise InputError(f"request {row}: {why}")
