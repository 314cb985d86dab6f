"""The job of a comparison's worker: serve a workload with the real engine, and say how undisturbed it was."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ....profiles.llm.decoder import DecoderSpec
from ....profiles.measure.pool import Worker
from ....simulator.llm.result.columns import LLMResult
from ....simulator.llm.workload.requests import LLMTrace
from ..steps import EngineStep, Moment, steps_of

__all__ = ["CLOCKS", "Served", "serve_job"]

CLOCKS = ("wall", "core")
"""What a served request's times are read from: the wall clock; or the processor time of the engine's thread, where
waiting for a request takes no time and other processes cannot slow it down."""


@dataclass(frozen=True, slots=True)
class Served:
    """A workload that was served.

    Parameters
    ----------
    result : LLMResult
        What came of it.
    share : float
        Share of the steps' time in which this process had its core; 1 on a GPU.
    steps : list of EngineStep
        All steps that computed something; they start as many seconds after the beginning as requests arrive.
    """

    result: LLMResult
    share: float
    steps: list[EngineStep]


def serve_job(
    worker: Worker,
    spec: DecoderSpec,
    policy: str,
    config: dict[str, Any],
    options: dict[str, Any],
    trace: LLMTrace,
    clock: str = "wall",
) -> Served:
    """Serve `trace` on this worker with an engine of its own, by one of `CLOCKS`."""
    from ..engine import LLMEngine, serve_trace, serving
    from ..engine.serving import warm

    with LLMEngine(spec, policy, config, **options) as engine:
        step, on_gpu = engine.step, worker.device.startswith("cuda")
        wall_s = core_s = 0.0
        begun: list[Moment] = []

        def timed() -> Any:
            nonlocal wall_s, core_s
            begin, wall, core = serving.time.perf_counter(), time.perf_counter(), time.thread_time()
            out = step()
            has, after, end = time.thread_time(), time.perf_counter(), serving.time.perf_counter()
            core_s += has - core
            wall_s += after - wall
            iteration = None if out.ran is None else out.ran.iteration
            begun.append(Moment(begin, core, end, has, iteration, engine.busy))
            return out

        warm(engine)  # what meets cold code is no step like others
        engine.step = timed  # type: ignore[method-assign]
        with _by(clock):
            result = serve_trace(engine, trace, warmup=False)
    share = 1.0 if on_gpu or not wall_s else min(1.0, core_s / wall_s)
    first = next((m.begin for m in begun if m.iteration is not None), 0.0)
    zero = first - float(result.iterations.start[0]) if len(result.iterations.start) else 0.0
    steps = steps_of(begun, sorted((result.arrival + zero).tolist()))
    return Served(result, share, [step._replace(start=step.start - zero) for step in steps])


class _CoreClock:
    """The processor time of this thread; sleeping moves it on at once. Stands in for module `time`."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def perf_counter(self) -> float:
        """Seconds that this thread ran, and those that it would have slept."""
        return time.thread_time() + self.skipped

    def sleep(self, seconds: float) -> None:
        """Let `seconds` be over."""
        self.skipped += seconds


@contextmanager
def _by(clock: str) -> Generator[None, None, None]:
    """Within the block, `serve_trace` reads this clock."""
    from ..engine import serving

    if clock == "wall":
        yield
        return
    kept = serving.time
    try:
        serving.time = _CoreClock()  # type: ignore[assignment]
        yield
    finally:
        serving.time = kept
