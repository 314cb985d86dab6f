"""The workload of `meshwright run --llm`: a trace file, or lengths drawn and scaled to the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .real import MOST_REQUESTS, check_real_time
from .trace_io import read_trace

if TYPE_CHECKING:
    from ..simulator.llm import LLMTrace
    from .run_llm import LLMRun

__all__ = ["llm_workload"]

REQUESTS = 32
"""Requests that are drawn where nobody says how many."""


def llm_workload(asked: LLMRun, longest: int) -> tuple[LLMTrace, str]:
    """The requests, read or drawn, and a line on where they are from.

    Parameters
    ----------
    asked : LLMRun
        What the command line said.
    longest : int
        Tokens of the longest sequence that the engine takes.

    Raises
    ------
    InputError
        On options that contradict each other, or a file that cannot be read.
    """
    from ..simulator.llm import LLMTrace

    if asked.concurrency is not None and asked.rate is not None:
        raise InputError("--concurrency: a closed loop has no --rate; give one of them")
    if asked.trace is not None:
        drawn = [n for n in ("rate", "cv", "lengths", "scale") if getattr(asked, n) is not None]
        if drawn:
            raise InputError(f"--trace: says arrivals and lengths itself; leave --{drawn[0]} out")
        trace = LLMTrace.of(read_trace([asked.trace], None))
        if asked.requests is not None:
            trace = trace.select(slice(0, asked.requests))
        check_real_time(trace.arrival)
        return trace, str(asked.trace)
    if asked.requests is not None and asked.requests > MOST_REQUESTS:
        raise InputError(f"--requests: expected at most {MOST_REQUESTS:,} (got {asked.requests})")
    prompts, outputs, name = _lengths(asked)
    scale = asked.scale
    if scale is None:
        shipped = asked.lengths in (None, "sharegpt", "alpaca")
        scale = min(1.0, longest / 2048) if shipped and asked.plan is None else 1.0  # a plan was made for true lengths
    if not 0 < scale <= 100:
        raise InputError(f"--scale: expected a factor in (0, 100] (got {scale:g})")
    import numpy as np

    from ..simulator.llm import draw

    if scale != 1:
        prompts, outputs = (np.maximum(1, np.round(scale * x)).astype(np.int64) for x in (prompts, outputs))
    trace = draw(
        prompts, outputs, asked.requests or REQUESTS, rate=asked.rate, cv=1.0 if asked.cv is None else asked.cv,
        max_model_len=longest, seed=asked.seed,
    )  # fmt: skip
    check_real_time(trace.arrival)
    shrunk = "" if scale == 1 else f" x {scale:g}"
    return trace, f"lengths like {name}{shrunk}, seed {asked.seed}"


def _lengths(asked: LLMRun) -> tuple[Any, Any, str]:
    from ..simulator.llm import read_lengths
    from ..traces.lengths import LENGTHS

    name = asked.lengths or "sharegpt"
    if name in LENGTHS:
        drawn = LENGTHS[name].sample(10 * (asked.requests or REQUESTS), asked.seed)
        return drawn.prompt, drawn.output, name
    if not Path(name).exists():
        raise InputError(f"--lengths: expected {', '.join(LENGTHS)} or a CSV of lengths (got {name!r})")
    return (*read_lengths(name), name)
