"""`rehearse`: what starting an engine and its steps take, learnt on other requests, before the run that is foretold."""

from __future__ import annotations

# scipy brings no type stubs.
# pyright: reportMissingTypeStubs=false
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.llm.cost.in_service import InService
from ....profiles.llm.iteration import IterationCost
from ....profiles.llm.linear import LinearCost
from ....profiles.llm.times import StepTimes
from ....reprs import Shown
from ....seeds import generator
from ....simulator.llm.workload.requests import LLMTrace
from ....spawning import check_can_start
from ..steps import EngineStep, level_of, level_sd, times_of_steps, undisturbed
from .ledger import Ledger
from .process import EngineBuild, EngineProcess, StepTold

__all__ = ["ROUNDS", "Rehearsed", "linear_cost", "other_requests", "rehearse"]

ROUNDS, ROUND_S = 4, 6.0
"""Processes that are started, and seconds that requests come to each: starts and levels of processes differ, and an
interval is no better than what it knows of that. Guesses: more cost more time."""


@dataclass(frozen=True, eq=False, repr=False)
class Rehearsed(Shown):
    """What engines took.

    Parameters
    ----------
    load_s : ndarray of float64, shape (rounds,)
        From the start of a process until it could serve, seconds.
    rounds : list of list of EngineStep
        The steps of each.
    """

    load_s: npt.NDArray[np.float64]
    rounds: list[list[EngineStep]]

    def _headline(self) -> str:
        return self.headline()

    def headline(self) -> str:
        """What was seen, in a line."""
        return f"starting took {', '.join(f'{s:.2f}' for s in self.load_s)} s; {sum(map(len, self.rounds))} steps"

    def level(self, steps: list[EngineStep]) -> float:
        """Time of other steps over what these rounds' steps say that they take."""
        cost, _ = self.costs()
        return level_of(steps, cost) / level_of([step for one in self.rounds for step in one], cost)

    def costs(self) -> tuple[IterationCost, StepTimes]:
        """What an iteration takes, and how steps vary around it.

        A linear cost is fitted to all steps; kinds and batches have factors over it (`InService`). How far the level of
        a run may be from that of the rehearsal: what neighbouring quarters of a round differ by, or what rounds (other
        processes) do, whichever is more.
        """
        steps = [step for one in self.rounds for step in one]
        known = undisturbed(steps) or [(step.iteration, step.seconds) for step in steps]
        cost = InService.of(linear_cost(steps), known)
        levels = [level_of(one, cost) for one in self.rounds]
        between = float(np.std(levels, ddof=1) / np.mean(levels)) if len(levels) > 1 else 0.0
        shift = min(0.49, max(between, level_sd(self.rounds, [cost] * len(self.rounds))))
        joined: list[EngineStep] = []
        for one in self.rounds:  # a recording after the other: the time between them is cut out
            gap = one[0].start - (joined[-1].start + joined[-1].seconds) if joined else 0.0
            joined += [step._replace(start=step.start - gap) for step in one]
        return cost, times_of_steps(joined, cost, shift)


def linear_cost(steps: list[EngineStep]) -> LinearCost:
    """Non-negative least squares of relative errors of what steps took.

    Raises
    ------
    InputError
        Without any step.
    """
    if not steps:
        raise InputError("kills: the rehearsal had no step to learn from; give more requests")
    from scipy import optimize

    names = ("base_s", "token_s", "context_s", "pair_s", "decode_s")
    # A cost of one second for each: its terms are the columns. Without base or tokens no cost is valid.
    ones = LinearCost(1.0)
    alone = [ones, *(LinearCost(1.0, **{name: 1.0}) for name in names[1:])]
    seconds = np.array([step.seconds for step in steps])
    parts = np.array([[one.seconds(step.iteration) for one in alone] for step in steps])
    parts[:, 1:] -= 1.0
    found = cast(Any, optimize).nnls(parts / seconds[:, None], np.ones(len(steps)))[0]
    base = max(float(found[0]), 1e-9)
    return LinearCost(base, *(float(x) for x in found[1:]))


def other_requests(trace: LLMTrace, seed: int, number: int, seconds: float, waited_s: float = 0.0) -> LLMTrace:
    """Requests of the same kind: the trace's gaps and lengths, each in another order, for so many seconds.

    With `waited_s` they have come for so long when it begins: the queue that an engine finds when it comes back. Full
    batches are rare otherwise, and what they take would be extrapolated.
    """
    rng = generator(seed, "llm", "kills", "others", number)
    n = len(trace)
    gaps = np.diff(trace.arrival, prepend=0.0)[rng.permutation(n)]
    order = rng.permutation(n)
    arrival = np.cumsum(gaps)
    kept = max(1, int(np.searchsorted(arrival, waited_s + seconds, side="right")))
    return LLMTrace(
        np.maximum(0.0, arrival[:kept] - waited_s), trace.prompt_tokens[order][:kept], trace.output_tokens[order][:kept]
    )


def rehearse(
    build: EngineBuild, trace: LLMTrace, *, seed: int = 0, rounds: int = ROUNDS, seconds: float = ROUND_S,
    repair_s: float = 0.0, progress: Callable[[str], None] | None = None,
) -> Rehearsed:  # fmt: skip
    """Start engines one after the other, have each serve other requests, and kill it.

    Every second one begins with the queue of an outage: of `repair_s` and a start, or of `seconds` if that is less.

    Raises
    ------
    InputError
        On fewer than two rounds, of which no interval can be made, or no seconds.
    RunError
        If an engine dies unasked or fails.
    """
    if isinstance(rounds, bool) or rounds < 2 or not seconds > 0:
        raise InputError(f"kills: a rehearsal has 2 rounds or more of > 0 seconds (got {rounds} of {seconds})")
    check_can_start("run: an engine")
    loads: list[float] = []
    found: list[list[EngineStep]] = []
    for number in range(rounds):
        if progress is not None:
            progress(f"starting an engine and serving other requests, {number + 1} of {rounds}")
        waited_s = min(repair_s + loads[-1], seconds) if number % 2 else 0.0
        others = other_requests(trace, seed, number, seconds, waited_s)
        engine = EngineProcess(build, others)
        try:
            loads.append(engine.ready())
            zero = time.perf_counter()
            ledger = Ledger(others, zero)
            engine.serve(ledger.left(), zero)
            while not ledger.whole:
                said = engine.next(1.0)
                if isinstance(said, StepTold):
                    ledger.note(said)
        finally:
            engine.kill()
        found.append(ledger.result(build.policy, ()).steps)
    return Rehearsed(np.array(loads), found)
