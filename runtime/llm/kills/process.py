"""The process of one engine that may be killed: it serves what it is told, and says each step at once."""

from __future__ import annotations

import os
import pickle
import signal
import time
import traceback
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from ....errors import InputError, RunError
from ....profiles.llm.decoder import DecoderSpec
from ....profiles.measure.pool import usable_cores
from ....simulator.llm.policy.work import Work
from ....simulator.llm.workload.requests import LLMTrace
from ..engine.options import EngineConfig
from ..steps import Moment

__all__ = ["EngineBuild", "EngineProcess", "StepTold"]

POLICIES = ("vllm-v1", "sarathi")
"""Those whose requests are single sequences that are never swapped."""
START_TIMEOUT_S = 180.0
"""Longest wait for a process that starts: importing torch takes long on a busy machine. A guess."""


@dataclass(frozen=True, slots=True)
class EngineBuild:
    """How an engine is built, again and again.

    Parameters
    ----------
    spec : DecoderSpec
        The model.
    policy : str
        A scheduler, `vllm-v1` or `sarathi`.
    config : dict
        Its options.
    options : EngineConfig
        Where and how it computes; one process.

    Raises
    ------
    InputError
        On another policy, or an engine of several processes.
    """

    spec: DecoderSpec
    policy: str
    config: dict[str, Any]
    options: EngineConfig

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InputError(f"kills: engine.policy: expected one of {', '.join(POLICIES)} (got {self.policy!r})")
        if self.options.tp * self.options.cp > 1:
            raise InputError(
                f"kills: an engine of one process is killed; leave tensor and context parallelism out (got "
                f"tp {self.options.tp}, cp {self.options.cp})"
            )


class StepTold(NamedTuple):
    """What a step came to: its clocks, what was decided, the carried out decision, and rows that are done."""

    moment: Moment
    work: list[Work]
    ran: Work | None
    finished: list[int]
    ignored: list[int]


class EngineProcess:
    """An engine in a process of its own, from its start on.

    Parameters
    ----------
    build : EngineBuild
        What runs.
    trace : LLMTrace
        The requests that it will be told to serve.
    """

    def __init__(self, build: EngineBuild, trace: LLMTrace) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        core = usable_cores()[0] if build.options.device == "cpu" else None
        self._process: BaseProcess = context.Process(
            target=_main, args=(theirs, build, trace, core), daemon=True, name="engine"
        )
        self.started = time.perf_counter()
        self._process.start()
        theirs.close()

    def ready(self) -> float:
        """Wait until it can serve; seconds since its start.

        Raises
        ------
        RunError
            If it dies, or does not come.
        """
        if self.next(START_TIMEOUT_S) is None:
            raise RunError(f"run: the engine did not start within {START_TIMEOUT_S:.0f} s")
        return time.perf_counter() - self.started

    def serve(self, rows: list[int], zero: float) -> None:
        """Have it serve rows of the trace, whose time 0 is `zero` of this machine's monotonic clock."""
        self._pipe.send((rows, zero))

    def next(self, timeout_s: float) -> StepTold | str | None:
        """What it says next: a step, or ``"ready"``; None if it says nothing for so many seconds.

        Raises
        ------
        RunError
            If it died, or failed.
        """
        if not wait([self._pipe, self._process.sentinel], max(0.0, timeout_s)):
            return None
        try:
            said: Any = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(5)
            raise RunError(f"run: the engine died unasked (exit code {self._process.exitcode})") from None
        if isinstance(said, (StepTold, str)):
            return said
        raise RunError(f"run: the engine failed:\n{said[1]}")

    def kill(self) -> tuple[float, list[StepTold]]:
        """Kill it (SIGKILL): when, on the monotonic clock; and what it had said and nobody had heard."""
        self._process.kill()
        killed = time.perf_counter()  # its end takes longer: the kernel takes its memory back
        self._process.join()
        heard: list[StepTold] = []
        try:
            while self._pipe.poll():
                said = self._pipe.recv()
                heard += [said] if isinstance(said, StepTold) else []
        except (EOFError, OSError, pickle.UnpicklingError):  # the last word may be half a word
            pass
        self._pipe.close()
        return max([killed, *(told.moment.end for told in heard)]), heard


def _main(pipe: Connection, build: EngineBuild, trace: LLMTrace, core: int | None) -> None:
    """Draw the weights, run a few tokens, then serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    try:
        from ..engine import LLMEngine
        from ..engine.serving import warm

        with LLMEngine(build.spec, build.policy, build.config, options=build.options) as engine:
            warm(engine)
            pipe.send("ready")
            while True:
                rows, zero = pipe.recv()
                _serve(engine, trace, rows, zero, pipe)
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the parent needs it no more
        return
    except Exception:
        pipe.send(("failed", traceback.format_exc()))


def _serve(engine: Any, trace: LLMTrace, rows: list[int], zero: float, pipe: Connection) -> None:
    from ..engine.sampling import GREEDY
    from ..engine.serving import Serving

    class Telling(Serving):
        """Says each step at once instead of keeping it: this process may not live to tell."""

        def step(self) -> None:
            begin, core = time.perf_counter(), time.thread_time()
            out = self.engine.step()
            has, end = time.thread_time(), time.perf_counter()
            iteration = None if out.ran is None else out.ran.iteration
            moment = Moment(begin, core, end, has, iteration, self.engine.busy)
            finished, ignored = [int(f.request) for f in out.finished], [int(row) for row in out.ignored]
            pipe.send(StepTold(moment, out.work, out.ran, finished, ignored))
            for row in (*finished, *ignored):
                self.leave(row, end - self.zero)

    serving = Telling(engine, trace, None, GREEDY, None)
    serving.due = sorted((float(trace.arrival[row]), row) for row in rows)  # a sorted list is a heap
    serving.zero = zero
    serving.run()
