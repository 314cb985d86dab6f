"""The job of a comparison's worker: serve a workload with the real engine, and say how undisturbed it was."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ....profiles.llm.decoder import DecoderSpec
from ....profiles.llm.iteration import Iteration
from ....profiles.llm.measure_rounds import OURS
from ....profiles.measure.pool import Worker
from ....simulator.llm.result.columns import LLMResult
from ....simulator.llm.workload.requests import LLMTrace

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
    cycles : list of (Iteration, float)
        Iterations that had the core from their beginning to the next one's, and those seconds.
    before : list of (Iteration, float)
        The same of the other requests that this engine served first.
    """

    result: LLMResult
    share: float
    cycles: list[tuple[Iteration, float]]
    before: list[tuple[Iteration, float]]


def serve_job(
    worker: Worker,
    spec: DecoderSpec,
    policy: str,
    config: dict[str, Any],
    options: dict[str, Any],
    trace: LLMTrace,
    clock: str = "wall",
    others: LLMTrace | None = None,
) -> Served:
    """Serve `trace` on this worker with an engine of its own, by one of `CLOCKS`; the `others` first, if given.

    The same engine serves both: where its weights and caches lie in memory makes small passes faster or slower.
    """
    from ..engine import LLMEngine, serve_trace

    with LLMEngine(spec, policy, config, **options) as engine:
        step, on_gpu = engine.step, worker.device.startswith("cuda")
        wall_s = core_s = 0.0
        begun: list[tuple[float, float, Iteration | None]] = []

        def timed() -> Any:
            nonlocal wall_s, core_s
            wall, core = time.perf_counter(), time.thread_time()
            out = step()
            core_s += time.thread_time() - core
            wall_s += time.perf_counter() - wall
            begun.append((wall, core, None if out.ran is None else out.ran.iteration))
            return out

        engine.step = timed  # type: ignore[method-assign]
        before: list[tuple[Iteration, float]] = []
        with _by(clock):
            if others is not None:
                serve_trace(engine, others)
                before = _cycles(begun)
                begun.clear()
                wall_s = core_s = 0.0
            result = serve_trace(engine, trace)
    share = 1.0 if on_gpu or not wall_s else min(1.0, core_s / wall_s)
    return Served(result, share, _cycles(begun), before)


def _cycles(begun: list[tuple[float, float, Iteration | None]]) -> list[tuple[Iteration, float]]:
    """Iterations from their begin to the next one's, neither idle nor disturbed."""
    return [
        (iteration, after - before)
        for (before, had, iteration), (after, has, _) in pairwise(begun)
        if iteration is not None and has - had >= OURS * (after - before)
    ]


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
