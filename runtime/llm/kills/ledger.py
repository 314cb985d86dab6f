"""`Ledger`: what an engine said that may be killed at any time; `KilledRun`: what came of the requests in the end."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ....reprs import Shown
from ....simulator.llm.policy.work import Work
from ....simulator.llm.result.columns import LLMResult
from ....simulator.llm.result.iterations import Iterations, TokenRuns
from ....simulator.llm.workload.requests import LLMTrace
from ....simulator.llm.world import Records
from ..steps import EngineStep, Moment, steps_of
from .process import StepTold

if TYPE_CHECKING:
    from .run import Comeback

__all__ = ["KilledRun", "Ledger"]

_WORK = ("running", "waiting", "swap_out", "swap_in", "used_tokens", "wasted_tokens", "shared_tokens")


@dataclass(frozen=True, eq=False, repr=False)
class KilledRun(Shown):
    """A workload that was served by an engine that was killed.

    Parameters
    ----------
    result : LLMResult
        As users saw it: the tokens of each request's last try. Lost iterations count as work all the same.
    struck : tuple of float
        When the engine was killed, seconds into the run.
    comebacks : tuple of Comeback
        When it was there again.
    retries, lost_tokens : ndarray of int64, shape (n,)
        How often each request was sent anew, and the tokens that it had had.
    steps : list of EngineStep
        All steps that computed something.
    """

    result: LLMResult
    struck: tuple[float, ...]
    comebacks: tuple[Comeback, ...]
    retries: npt.NDArray[np.int64]
    lost_tokens: npt.NDArray[np.int64]
    steps: list[EngineStep]


class Ledger:
    """Collects steps.

    Parameters
    ----------
    trace : LLMTrace
        The requests.
    zero : float
        Time 0 of the run on the monotonic clock.
    """

    def __init__(self, trace: LLMTrace, zero: float) -> None:
        n = len(trace)
        self.trace, self.zero, self.records = trace, zero, Records(n)
        self.columns: dict[str, array[Any]] = {
            "start": array("d"), "end": array("d"), "prefill": array("q"), "decodes": array("q"),
            "preempted": array("q"), **{name: array("q") for name in _WORK},
        }  # fmt: skip
        self.tokens, self.emitted = array("q"), array("q")
        self.given, self.retries, self.lost_tokens = (np.zeros(n, dtype=np.int64) for _ in range(3))
        self.since = np.full(n, -np.inf)  # tokens up to this time are lost
        self.over = np.zeros(n, dtype=bool)
        self.lives: list[list[Moment]] = [[]]
        self.struck: list[float] = []
        self.capacity = 0

    @property
    def done(self) -> int:
        """Requests that have ended."""
        return int(self.over.sum())

    @property
    def whole(self) -> bool:
        """Whether all have."""
        return bool(self.over.all())

    def left(self) -> list[int]:
        """Rows that have not."""
        return np.flatnonzero(~self.over).tolist()

    def note(self, told: StepTold) -> None:
        """A step has ended."""
        records, start, end = self.records, told.moment.begin - self.zero, told.moment.end - self.zero
        self.lives[-1].append(told.moment)
        lost = 0
        for work in told.work:
            self.capacity = work.capacity_tokens
            lost += len(work.preempted)
            for row in work.admitted:
                if np.isnan(records.scheduled[row]):
                    records.scheduled[row] = start
            for row in work.preempted:
                records.preemptions[row] += 1
            for row, tokens in work.cached.items():
                records.cached_tokens[row] = tokens
        if told.ran is not None:
            self._iteration(told.ran, start, end, lost)
        for row in told.finished:
            records.finish[row], self.over[row] = end, True
        for row in told.ignored:
            records.ignored[row] = self.over[row] = True

    def _iteration(self, work: Work, start: float, end: float, lost: int) -> None:
        columns, iteration = self.columns, work.iteration
        columns["start"].append(start)
        columns["end"].append(end)
        columns["prefill"].append(0 if iteration is None else iteration.tokens - iteration.decodes)
        columns["decodes"].append(0 if iteration is None else iteration.decodes)
        columns["preempted"].append(lost)
        for name in _WORK:
            columns[name].append(getattr(work, name))
        emits = [row for row in work.emits if not self.over[row]]
        self.tokens.extend(emits)
        self.emitted.append(len(emits))
        np.add.at(self.given, emits, 1)

    def dies(self, heard: list[StepTold], at_s: float, up: bool) -> None:
        """The engine was killed, after what is `heard`; `up`: it served."""
        for told in heard:
            self.note(told)
        self.struck.append(at_s)
        if not up:
            return
        self.lives.append([])
        had = ~self.over & (self.trace.arrival <= at_s)
        self.retries[had] += 1
        self.lost_tokens[had] += self.given[had]
        self.given[had] = 0
        self.since[had] = at_s

    def result(self, policy: str, comebacks: tuple[Comeback, ...]) -> KilledRun:
        """What came of it."""
        m, trace, records = len(self.columns["end"]), self.trace, self.records
        columns: dict[str, Any] = {name: np.array(column) for name, column in self.columns.items()}
        iterations = Iterations(engine=np.zeros(m, dtype=np.int64), capacity_tokens=self.capacity, engines=1, **columns)
        request = np.array(self.tokens, dtype=np.int64)
        when = np.repeat(np.arange(m), np.array(self.emitted, dtype=np.int64))
        kept = iterations.end[when] > self.since[request]
        runs = TokenRuns.of_tokens(request[kept], when[kept])
        seen, at = np.unique(runs.request, return_index=True)
        records.first_token[seen] = iterations.end[runs.first[at]]
        np.add.at(records.generated, runs.request, runs.last - runs.first + 1)
        records.engine[:] = 0
        result = LLMResult(
            trace=trace,
            arrival=np.array(trace.arrival, dtype=np.float64),
            **records.columns(),
            iterations=iterations,
            runs=runs,
            policy=policy,
            made_by="engine",
        )
        due = sorted((trace.arrival + self.zero).tolist())
        # The first step of a later life ends no pause: nothing could be done before.
        steps = [
            step
            for k, life in enumerate(self.lives)
            if life
            for step in steps_of(life, due if not k else [at for at in due if at > life[0].begin])
        ]
        return KilledRun(result, tuple(self.struck), comebacks, self.retries, self.lost_tokens, steps)
