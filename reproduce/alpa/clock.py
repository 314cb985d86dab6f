"""Where planning time goes: a source of stage costs that counts its own seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...planners.alpa import AlpaOptions, plan
from ...profiles.graph import Graph
from ...simulator.cluster import Cluster
from ...simulator.training.plan.file import TrainingPlan

__all__ = ["Clock", "timed_plan"]


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds of one planning run.

    Parameters
    ----------
    pricing_s : float
        Seconds spent on pricing all runs of layers on all submeshes: the paper's compilation and profiling.
    solving_s : float
        Seconds spent on solving each chosen stage exactly.
    dp_s : float
        Seconds spent on the stage dynamic programme.
    rest_s : float
        Seconds spent on clustering operators and on assembling the plan.
    plan : TrainingPlan
        The plan that was found.
    """

    pricing_s: float
    solving_s: float
    dp_s: float
    rest_s: float
    plan: TrainingPlan

    @property
    def total_s(self) -> float:
        """Seconds of the whole planning run."""
        return self.pricing_s + self.solving_s + self.dp_s + self.rest_s


class _Timed:
    """A pricer that passes every call on to another one and adds up the seconds it takes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.seconds = {"intervals": 0.0, "stage": 0.0}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._timed(name, found) if name in self.seconds else found

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - started

        return timed


def timed_plan(graph: Graph, cluster: Cluster, global_batch: int, microbatches: int, options: AlpaOptions) -> Clock:
    """Plan once, on this process alone, with what its parts took."""
    from ...planners.alpa.inter.pricing.intra_pricer import IntraPricer

    started = time.perf_counter()
    pricer: Any = _Timed(IntraPricer.of(cluster, options))
    at: dict[str, float] = {}

    def note(line: str) -> None:
        at[line.split()[0]] = time.perf_counter()

    found = plan(
        graph, cluster, global_batch=global_batch, microbatches=microbatches, options=options, pricer=pricer,
        progress=note,
    )  # fmt: skip
    total = time.perf_counter() - started
    pricing, solving = pricer.seconds["intervals"], pricer.seconds["stage"]
    dp = at["solving"] - at["choosing"]
    return Clock(pricing, solving, dp, total - pricing - solving - dp, found)
