"""From a state to a `Plan`: the placement, what it is expected to attain, and its gap to the best possible."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Literal, cast

from ...simulator.placement import Placement, PlacementSchedule
from ...simulator.serving.plan.file import Plan, PlannerEntry, Serving
from ...simulator.serving.simulate import simulate
from .bound import upper_bound
from .evaluator import Evaluator, State
from .instance import Instance

__all__ = ["finish", "predict"]

Dispatch = Literal["shortest_queue", "earliest_finish", "earliest_free"]


def predict(instance: Instance, placement: Placement | PlacementSchedule) -> dict[str, float]:
    """What a placement attains on the instance's trace, simulated from scratch, and its gap to the upper bound."""
    result = simulate(
        placement, instance.trace, instance.profiles, dispatch=instance.dispatch, admission=instance.admission,
        overhead=instance.overhead,
    )  # fmt: skip
    bound = upper_bound(instance)
    metrics = {
        "attainment": result.attainment,
        "goodput": result.goodput,
        "mean_latency": result.mean_latency,
        "upper_bound": bound,
        "gap": bound - result.attainment,
    }
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def finish(
    instance: Instance,
    state: State,
    evaluator: Evaluator,
    name: str,
    options: Mapping[str, Any],
    begun: float,
    seed: int | None = None,
    extra: Mapping[str, float] | None = None,
    placement: Placement | None = None,
) -> Plan:
    """Make the plan.

    Parameters
    ----------
    instance : Instance
        The problem.
    state : State
        Its solution.
    evaluator : Evaluator
        What it was found with.
    name, options, seed
        Who planned it.
    begun : float
        `time.perf_counter` when planning began.
    extra : mapping, optional
        More predicted metrics.
    placement : Placement, optional
        The state on devices, where it matters on which.
    """
    i = instance
    placement = evaluator.placement(state) if placement is None else placement
    predicted = predict(i, placement) | dict(extra or {})
    entry = PlannerEntry(
        name=name, options=dict(options), seed=seed, seconds=time.perf_counter() - begun,
        evaluations=evaluator.evaluations,
    )  # fmt: skip
    serving = Serving(dispatch=cast(Dispatch, i.dispatch), admission=i.admission, overhead_s=i.overhead)
    return Plan.of(i.cluster, placement, i.profiles, planner=entry, trace=i.trace, serving=serving, predicted=predicted)
