"""Plans over weeks on machines that fail: what is said of them at the door `simulate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....errors import InputError
from ....simulator.training import TrainingPlan, TrainingResult
from ....simulator.training.plan.graph import known_graph
from ..case import TrainingCase
from ..long_run import LongRun, graph_bytes, shape_bytes, simulated_run

__all__ = ["long_document", "long_lines", "long_runs"]


def long_runs(case: TrainingCase, results: Mapping[str, TrainingResult]) -> dict[str, LongRun]:
    """A run of each plan with the case's failures; none where nothing fails.

    Raises
    ------
    InputError
        On what is wrong with failures and checkpoints, or if nobody knows what a checkpoint holds.
    """
    found: dict[str, LongRun] = {}
    if case.failures.some:
        for path, result in results.items():
            held, tokens = _held(case, result.plan, Path(path))
            one = simulated_run(case, result.plan.cluster_spec, result.seconds, held, tokens)
            if one is not None:
                found[path] = one
    return found


def _held(case: TrainingCase, plan: TrainingPlan, path: Path) -> tuple[float, int]:
    """Bytes of a checkpoint of a plan's model, and tokens of a sample."""
    from ....planners.megatron import model_shape

    graph = known_graph(plan, path)
    if graph is not None:
        return graph_bytes(graph, plan.model.optimizer), int(graph.items_per_sample) if graph.items == "tokens" else 0
    try:
        shape = model_shape(plan.model.name, None)
    except InputError:
        if case.checkpoint.cost is not None and case.checkpoint.bandwidth is None:
            return 0.0, 0
        raise InputError(
            f"checkpoint.bandwidth: nobody knows how many parameters {plan.model.name!r} of {path} has; give "
            "checkpoint.cost in seconds instead"
        ) from None
    return shape_bytes(shape, plan.model.dtype), shape.seq


def long_lines(long: Mapping[str, LongRun], results: Mapping[str, TrainingResult]) -> list[str]:
    """For people."""
    said: list[str] = []
    for path, one in long.items():
        said += ["", *([f"{path}:"] if len(results) > 1 else []), *one.lines(results[path].samples_per_s)]
    return said


def long_document(one: LongRun | None) -> dict[str, Any]:
    """For machines."""
    if one is None:
        return {}
    mean, (low, high) = one.result.interval(), one.result.run_interval()
    return {
        "run": {
            "goodput": mean.mean,
            "goodput_interval": [mean.low, mean.high],
            "goodput_closed_form": None if one.result.expected_goodput() != one.result.expected_goodput()
            else one.result.expected_goodput(),
            "checkpoint_interval_s": one.result.checkpoints.interval_s,
            "checkpoint_stall_s": one.result.checkpoints.stall_s,
            "restart_s": one.result.checkpoints.restart_s,
            "failures": float(one.result.failures.mean()),
            "wall_s": float(one.result.wall_s.mean()),
            "wall_interval_s": [low, high],
            "shares": one.result.shares,
        }
    }  # fmt: skip
