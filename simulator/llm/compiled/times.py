"""What a step takes beyond its cost, for the compiled loops: factors in service, and drawn ones (`StepDraws`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....jit import inner
from ....profiles.llm.cost.in_service import KINDS, InService
from ...ratio import ratio
from ..times import StepDraws
from .rules import BARE

__all__ = ["OnTop", "in_service", "on_top", "varied"]


class OnTop(NamedTuple):
    """Factors on the cost of a step."""

    in_service: bool
    service: Any  # (kinds, decodes + 1): by kind as `KINDS`, and number of decodes, the last one's beyond
    drawn: bool
    first: int  # the device of engine 0
    ranks: int
    window_s: float
    slow: Any  # as `Draws`
    keys: Any
    decodes: Any  # quantiles of what a step that only decodes draws for itself
    prompts: Any  # of one with prompt tokens


def on_top(cost: Any, times: StepDraws | None) -> OnTop:
    """The factors in numbers; arrays of one kind whatever there is, so that one compilation serves all."""
    service = np.ones((len(KINDS), 1))
    if isinstance(cost, InService):
        most = max(getattr(cost, kind).decodes[-1] for kind in KINDS)
        service = np.array([[getattr(cost, kind).at(n) for n in range(most + 1)] for kind in KINDS])
    if times is None:
        one = np.ones(1)
        return OnTop(
            isinstance(cost, InService), service, False, 0, 1, 1.0, np.ones((1, 1)), np.zeros(1, np.uint64), one, one
        )
    d = times.decodes
    return OnTop(
        isinstance(cost, InService), service, True, 0, times.ranks, float(d.window_s), d.slow, d.keys, d.visits,
        times.prompts.visits,
    )  # fmt: skip


_inline: Any = inner(**BARE)


@_inline
def in_service(o: Any, seconds: float, decodes: int, chunks: int) -> float:
    """Seconds of a step in service."""
    if o.in_service:
        # KINDS: decodes, both, prompts.
        kind = 0 if chunks == 0 else (1 if decodes else 2)
        seconds *= o.service[kind, min(decodes, o.service.shape[1] - 1)]
    return seconds


@_inline
def varied(o: Any, seconds: float, engine: int, at: float, step: int, decodes: int, chunks: int) -> float:
    """Seconds of an engine's `step`-th step, which starts at `at`: its cost times all factors."""
    seconds = in_service(o, seconds, decodes, chunks)
    if o.drawn:
        first, most = o.first + engine * o.ranks, 0.0
        for rank in range(o.ranks):
            own = o.prompts if chunks else o.decodes
            most = max(most, ratio(o.slow, o.window_s, o.keys, own, first + rank, at, step))
        seconds *= most
    return seconds
