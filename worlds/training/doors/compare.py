"""Comparing: training plans measured, simulated and run in turn, on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ....errors import InputError
from ....files import write_text
from ....runtime.training.compare import WITHIN, compare_training
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.plan.graph import known_graph, planned_graph
from ...door import Answer, Asked
from ..options import CompareOptions
from .run import check_here

__all__ = ["compared"]


def compared(asked: Asked) -> Answer:
    """Measure, simulate and run.

    Raises
    ------
    InputError
        On what is wrong with the options or the plans.
    RunError
        If a process fails.
    """
    options, plans = cast(CompareOptions, asked.options), cast("Mapping[str, TrainingPlan]", asked.plans)
    first, graph = None, None
    for path, plan in plans.items():
        planned_graph(plan, Path(path))  # checks it
        found = known_graph(plan, Path(path))  # in its own order: plans may have orders of their own
        check_here(plan, sum(m.hosts * m.devices for m in plan.meshes))
        if first is None or graph is None:
            first, graph = path, found
        elif found is None or found.digest != graph.digest:
            raise InputError(f"{path}: trains another model than {first}; compare plans for the same model")
    if graph is None:
        raise InputError("compare: expected plans whose model is known (got none)")
    result = compare_training(dict(plans), graph, rounds=options.rounds, seed=asked.case.seed, progress=asked.progress)
    rows: list[dict[str, Any]] = [
        {"plan": row.name, "simulated_s": row.simulated_s, "low_s": row.interval_s[0], "high_s": row.interval_s[1],
         "measured_s": row.measured_s, "difference": row.difference, "inside": row.inside, "level": row.level,
         "jitter": row.jitter, "rest": row.rest, "cores_ours": row.own}
        for row in result.rows
    ]  # fmt: skip
    if options.csv is not None:
        lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
        write_text(options.csv, "\n".join(lines) + "\n")
    failed = ""
    if result.misplaced:
        failed = "compare: the simulation orders plans whose intervals are apart otherwise than they ran"
    elif not result.right:
        failed = f"compare: runs are outside their intervals, by up to {result.worst:.1%} (goal: {WITHIN:.0%})"
    inside = sum(row.inside for row in result.rows)
    document = {"plans": rows, "worst": result.worst, "inside": inside, "ordered": result.ordered}
    written = () if options.csv is None else (options.csv,)
    return Answer(str(result), document, result, written=written, failed=failed)
