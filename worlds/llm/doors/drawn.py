"""The requests of a real run: a trace file, or lengths drawn and scaled to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InputError
from ....simulator.llm import LLMTrace, draw, read_lengths
from ....traces import read
from ....traces.lengths import LENGTHS
from ...real_time import MOST_REQUESTS, check_real_time
from ..case import LLMCase
from ..options import RunOptions

__all__ = ["requests_of"]

REQUESTS = 32
"""Requests that are drawn where nobody says how many."""


def requests_of(
    case: LLMCase, options: RunOptions, longest: int, folder: Path, *, planned: bool
) -> tuple[LLMTrace, str]:
    """The requests, read or drawn, and a line on where they are from.

    Parameters
    ----------
    case : LLMCase
        Whose `workload` says them.
    options : RunOptions
        Of the door.
    longest : int
        Tokens of the longest sequence that the engine takes.
    folder : Path
        Files are relative to it.
    planned : bool
        Whether a plan runs, which was made for true lengths.

    Raises
    ------
    InputError
        On options that contradict each other, or a file that cannot be read.
    """
    w = case.workload
    if options.concurrency is not None and w.rate is not None:
        raise InputError("concurrency: a closed loop has no rate; give one of them")
    if w.trace is not None:
        if options.scale is not None:
            raise InputError("scale: workload.trace says lengths itself; leave it out")
        trace = LLMTrace.of(read(folder / w.trace))
        check_real_time(trace.arrival)
        return trace, w.trace
    if w.requests is not None and w.requests > MOST_REQUESTS:
        raise InputError(f"workload.requests: expected at most {MOST_REQUESTS:,} of a real run (got {w.requests})")
    n = w.requests or (max(1, round(w.rate * w.duration)) if w.rate and w.duration else REQUESTS)
    prompts, outputs = _lengths(w.lengths, 10 * n, case.seed, folder)
    scale = options.scale
    if scale is None:
        scale = min(1.0, longest / 2048) if w.lengths in LENGTHS and not planned else 1.0
    if scale != 1:
        prompts, outputs = (np.maximum(1, np.round(scale * x)).astype(np.int64) for x in (prompts, outputs))
    trace = draw(prompts, outputs, n, rate=w.rate, cv=w.cv, max_model_len=longest, seed=case.seed)
    check_real_time(trace.arrival)
    shrunk = "" if scale == 1 else f" x {scale:g}"
    return trace, f"lengths like {w.lengths}{shrunk}, seed {case.seed}"


def _lengths(name: str, n: int, seed: int, folder: Path) -> tuple[Any, Any]:
    if name in LENGTHS:
        drawn = LENGTHS[name].sample(n, seed)
        return drawn.prompt, drawn.output
    if not (folder / name).exists():
        raise InputError(f"workload.lengths: expected {', '.join(LENGTHS)} or a CSV of lengths (got {name!r})")
    return read_lengths(folder / name)
