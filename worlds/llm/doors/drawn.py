"""The requests of a real run: a trace file, or lengths drawn and scaled to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InputError
from ....simulator.llm import LLMPlan, LLMTrace, draw, read_lengths
from ....simulator.llm.workload.clients import Clients
from ....traces.lengths import LENGTHS
from ...before import MOST_REQUESTS, check_real_time
from ..case import LLMCase
from ..data import one_trace
from ..demands import squeezed
from ..options import RunOptions

__all__ = ["requests_of", "senders"]

REQUESTS = 32
"""Requests that are drawn where nobody says how many."""


def requests_of(
    case: LLMCase, options: RunOptions, longest: int, folder: Path, *, plan: LLMPlan | None = None
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
    plan : LLMPlan, optional
        What runs: it was made for true lengths, and a closed loop takes the place of its rate.

    Raises
    ------
    InputError
        On options that contradict each other, or a file that cannot be read.
    """
    w, clients = case.workload, senders(case)
    rate = None if w.rate is None or w.clients.rateless else w.rate * w.rate_scale
    if options.concurrency is not None and clients is not None:
        if plan is None:
            raise InputError("concurrency: workload.clients.arrivals say how requests are sent; give one of them")
        clients = None
    if options.concurrency is not None:
        if rate is not None and not (plan is not None and rate == planned_rate(plan)):
            raise InputError("concurrency: a closed loop has no rate; give one of them")
        rate = None
    if w.trace is not None:
        if options.scale is not None:
            raise InputError("scale: workload.trace says lengths itself; leave it out")
        trace = squeezed(one_trace(folder / w.trace), w.rate_scale)
        if clients is not None and clients.rateless:
            if trace.after is not None:
                raise InputError("workload.clients.arrivals: turns of conversations come when they are answered")
            trace = trace.at(**clients.columns(len(trace), 0.0, case.seed))
        check_real_time(trace.arrival)
        return trace, w.trace if clients is None else f"{w.trace}, {_sent(clients)}"
    if w.requests is not None and w.requests > MOST_REQUESTS:
        raise InputError(f"workload.requests: expected at most {MOST_REQUESTS:,} of a real run (got {w.requests})")
    if w.duration is not None and rate is None:
        raise InputError("workload.duration: goes with a rate; say how many requests")
    n = w.requests or (REQUESTS if rate is None or w.duration is None else max(1, round(rate * w.duration)))
    if n > MOST_REQUESTS:
        raise InputError(f"workload.duration: expected at most {MOST_REQUESTS:,} requests of a real run (got {n})")
    prompts, outputs = _lengths(w.lengths, 10 * n, case.seed, folder)
    scale = options.scale
    if scale is None:
        scale = min(1.0, longest / 2048) if w.lengths in LENGTHS and plan is None else 1.0
    if scale != 1:
        prompts, outputs = (np.maximum(1, np.round(scale * x)).astype(np.int64) for x in (prompts, outputs))
    trace = draw(prompts, outputs, n, rate=rate, cv=w.cv * w.cv_scale, max_model_len=longest, seed=case.seed)
    sent = ""
    if clients is not None and (clients.rateless or rate is not None):
        trace = trace.at(**clients.columns(len(trace), rate or 0.0, case.seed))
        sent = f", {_sent(clients)}"
    check_real_time(trace.arrival)
    shrunk = "" if scale == 1 else f" x {scale:g}"
    return trace, f"lengths like {w.lengths}{shrunk}, seed {case.seed}{sent}"


def senders(case: LLMCase) -> Clients | None:
    """How the case's clients send requests to a real engine; None where it does not say.

    Raises
    ------
    InputError
        On a front end, which the engine does not have, or a spread of outputs.
    """
    w = case.workload
    if w.clients.front_end != "engine" or w.clients.front_end_s is not None:
        raise InputError(
            "workload.clients.front_end: the real engine takes requests straight into its queue; leave it out, or run "
            "it with serve and send over HTTP"
        )
    if w.clients.output_cv is not None:
        raise InputError("workload.clients.output_cv: a real run takes lengths as they are; leave it out")
    return w.clients.clients(w.cv * w.cv_scale)


def _sent(clients: Clients) -> str:
    """How they send, without the front end, of which a real engine has none."""
    return clients.explain().partition("; ")[0]


def planned_rate(plan: LLMPlan) -> float | None:
    """Requests per second that a plan was made for, all models together."""
    return None if plan.workload is None else sum(plan.workload.rate_per_s.values())


def _lengths(name: str, n: int, seed: int, folder: Path) -> tuple[Any, Any]:
    if name in LENGTHS:
        drawn = LENGTHS[name].sample(n, seed)
        return drawn.prompt, drawn.output
    if not (folder / name).exists():
        raise InputError(f"workload.lengths: expected {', '.join(LENGTHS)} or a CSV of lengths (got {name!r})")
    return read_lengths(folder / name)
