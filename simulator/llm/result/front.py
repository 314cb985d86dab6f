"""What clients see of a result: a front end's seconds on top of the engine's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..workload.clients import FrontEnd
from .columns import LLMResult

__all__ = ["seen_by_clients"]


def seen_by_clients(result: LLMResult, front: FrontEnd | None = None) -> LLMResult:
    """A result whose first and last tokens are there when clients have them.

    Both come later by the front end's seconds of a request, and by those of a token of each sequence that runs in the
    step of its first token. The time per further token does not change, nor does what engines did and when.

    Parameters
    ----------
    result : LLMResult
        A simulation.
    front : FrontEnd, optional
        What stands between; by default that of the trace's `Clients`.
    """
    clients = result.trace.clients
    between = front or (None if clients is None else clients.front)
    if between is None or between.none:
        return result
    later = np.full(len(result), between.request_s)
    begins = np.flatnonzero(np.diff(result.runs.request, prepend=-1))
    later[result.runs.request[begins]] += between.sequence_s * result.iterations.running[result.runs.first[begins]]
    return replace(result, first_token=result.first_token + later, finish=result.finish + later)
