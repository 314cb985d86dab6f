"""From a state to a `Plan`: the placement, what it is expected to attain, and its gap to the best possible."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...simulator.plan import Plan, PlannerEntry, Serving
from ...simulator.serving.simulate import simulate
from .bound import upper_bound
from .evaluator import Evaluator, State

__all__ = ["finish"]


def finish(
    evaluator: Evaluator, state: State, name: str, options: Mapping[str, Any], begun: float, seed: int | None = None
) -> Plan:
    """Make the plan; simulates it once, from scratch, for its predicted metrics."""
    i = evaluator.instance
    placement = evaluator.placement(state)
    result = simulate(placement, i.trace, i.profiles, dispatch=i.dispatch, admission=i.admission, overhead=i.overhead)
    bound = upper_bound(i)
    predicted = {
        "attainment": result.attainment,
        "goodput": result.goodput,
        "mean_latency": result.mean_latency,
        "upper_bound": bound,
        "gap": bound - result.attainment,
    }
    return Plan.of(
        i.cluster,
        placement,
        i.profiles,
        planner=PlannerEntry(
            name=name, options=dict(options), seed=seed, seconds=time.perf_counter() - begun,
            evaluations=evaluator.evaluations,
        ),
        trace=i.trace,
        serving=Serving(dispatch=i.dispatch, admission=i.admission, overhead_s=i.overhead),  # pyright: ignore
        predicted={key: value for key, value in predicted.items() if value == value},
    )  # fmt: skip
