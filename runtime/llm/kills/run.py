"""`serve_with_kills`: a workload through an engine that is killed by a script and started anew."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....errors import InputError
from ....reprs import Shown
from ....simulator.llm.fleet.faults import Fault
from ....simulator.llm.workload.requests import LLMTrace
from ....spawning import check_can_start
from .ledger import KilledRun, Ledger
from .process import EngineBuild, EngineProcess, StepTold

__all__ = ["Comeback", "check_script", "serve_with_kills"]

LONGEST_WAIT_S = 0.5
"""Seconds after which Ctrl-C is heard at the latest, and between two calls of `progress`."""


@dataclass(frozen=True, slots=True, repr=False)
class Comeback(Shown):
    """An engine that came back.

    Parameters
    ----------
    at_s : float
        When it served again, seconds into the run.
    load_s : float
        Seconds since its process was started: imports, weights, a few tokens.
    """

    at_s: float
    load_s: float

    def __str__(self) -> str:
        return f"back at {self.at_s:.2f} s, {self.load_s:.2f} s after its start"


def check_script(trace: LLMTrace, kills: Sequence[Fault]) -> None:
    """Refuse what cannot be done.

    Raises
    ------
    InputError
        On no failure, one of another engine or without repair; on conversations, or several sequences of a request.
    """
    if not kills:
        raise InputError("kills: expected one time at least")
    for kill in kills:
        if kill.engine != 0 or not math.isfinite(kill.repair_s):
            raise InputError(f"kills: there is one engine, number 0, and its repair ends (got {kill})")
    if trace.after is not None or (trace.best_of is not None and bool((trace.best_of > 1).any())):
        raise InputError("kills: expected single requests of one sequence; leave conversations and beams out")


def serve_with_kills(
    build: EngineBuild, trace: LLMTrace, kills: Sequence[Fault], *, progress: Callable[[str], None] | None = None
) -> KilledRun:
    """Serve in real time with one engine process, which is killed by a script.

    As `Faults` of the simulator with one engine has it: at `at_s` the process is killed (SIGKILL); memory, prefix cache
    and the iteration under way are gone; after `repair_s` it is started, and serves once it has its weights. Requests
    that it had are sent anew, from the prompt, and wait with those that arrive meanwhile, in order of arrival; the
    first token is the last try's. A failure during a start begins another repair; during a repair it does nothing.

    Parameters
    ----------
    build : EngineBuild
        The engine.
    trace : LLMTrace
        Requests, with their times of arrival.
    kills : sequence of Fault
        When the engine, number 0, is killed, and how long repairs take.
    progress : callable, optional
        Called now and then with a line.

    Raises
    ------
    InputError
        As `check_script`, before any process starts.
    RunError
        If the engine dies unasked or fails.
    """
    check_script(trace, kills)
    check_can_start("run: an engine")
    script = sorted(kills, key=lambda one: one.at_s)
    engine: EngineProcess | None = EngineProcess(build, trace)
    up, restart_at, told = True, math.inf, 0.0
    comebacks: list[Comeback] = []
    try:
        engine.ready()
        zero = time.perf_counter()
        ledger = Ledger(trace, zero)
        engine.serve(ledger.left(), zero)
        while not ledger.whole:
            now = time.perf_counter() - zero
            if now - told >= LONGEST_WAIT_S:
                told = now
                if progress is not None:
                    progress(f"{ledger.done} of {len(trace)} requests{'' if up else '; the engine is away'}")
            if script and script[0].at_s <= now:
                kill = script.pop(0)
                if engine is not None:
                    (killed, heard), engine = engine.kill(), None
                    ledger.dies(heard, killed - zero, up)
                    up, restart_at = False, ledger.struck[-1] + kill.repair_s
                continue
            if engine is None and restart_at <= now:
                engine = EngineProcess(build, trace)
                continue
            until = min(script[0].at_s if script else math.inf, restart_at if engine is None else math.inf)
            rest = min(until - now, LONGEST_WAIT_S)
            if engine is None:
                time.sleep(max(0.0, rest))
                continue
            said = engine.next(rest)
            if isinstance(said, StepTold):
                ledger.note(said)
            elif said is not None:
                up = True
                comebacks.append(Comeback(time.perf_counter() - zero, time.perf_counter() - engine.started))
                engine.serve(ledger.left(), zero)
    finally:
        if engine is not None:
            engine.kill()
    return ledger.result(build.policy, tuple(comebacks))
