"""What it costs not to know how requests are sent: a plan simulated in every way in which they may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...simulator.llm import LLMPlanResult, LLMTrace
from .case import LLMCase

__all__ = ["Ways", "over_ways"]

FIGURES = (("ttft", 50), ("ttft", 90), ("e2e", 50))


@dataclass(frozen=True, slots=True)
class Ways:
    """Latencies over the ways in which requests may be sent.

    Parameters
    ----------
    ranges : mapping of str to (float, float)
        ``ttft_p50``, … -> the least and the most, seconds.
    ways : tuple of str
        The ways, in words.
    """

    ranges: Mapping[str, tuple[float, float]]
    ways: tuple[str, ...]

    def lines(self) -> list[str]:
        """For a person: the ranges, then the ways."""
        said = ", ".join(
            f"{name.split('_')[0].upper()} {name.split('_')[1]} {1e3 * low:.1f} to {1e3 * high:.1f} ms"
            for name, (low, high) in self.ranges.items()
        )
        first = f"how requests are sent is not known: {said} over {len(self.ways)} ways:"
        return [first, *(f"  {way}" for way in self.ways)]

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"ranges_s": {name: list(both) for name, both in self.ranges.items()}, "ways": list(self.ways)}


def over_ways(
    case: LLMCase, requests: Callable[[LLMCase], Mapping[str, LLMTrace]],
    simulate: Callable[[Mapping[str, LLMTrace]], LLMPlanResult],
) -> Ways:  # fmt: skip
    """Simulate a case in every way.

    Parameters
    ----------
    case : LLMCase
        One that says that something is not known.
    requests : callable
        A case -> its requests, model by model.
    simulate : callable
        Requests -> what becomes of them.
    """
    w = case.workload
    said: list[str] = []
    figures: list[list[float]] = []
    for words, clients in w.clients.ways(w.cv * w.cv_scale):
        how = None if w.clients.arrivals is None else clients.arrivals
        known = w.clients.model_copy(update={"arrivals": how, "front_end": clients.front.name})
        changed = w.model_copy(update={"clients": known, **({"cv": clients.cv} if clients.arrivals == "gamma" else {})})
        result = simulate(requests(case.model_copy(update={"workload": changed})))
        said.append(words)
        figures.append([result.percentiles(metric, (p,))[0] for metric, p in FIGURES])
    table = np.array(figures)
    names = [f"{metric}_p{p}" for metric, p in FIGURES]
    ranges = {name: (float(np.nanmin(c)), float(np.nanmax(c))) for name, c in zip(names, table.T, strict=True)}
    return Ways(ranges, tuple(said))
