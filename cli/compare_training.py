"""`meshwright compare` of training plans: each is measured, simulated and run in turn, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..errors import InputError
from .run_training import check_here
from .status import status
from .trace_io import print_json

__all__ = ["compare_training_plans"]


def compare_training_plans(plans: list[Path], *, rounds: int, seed: int, csv: Path | None, as_json: bool) -> None:
    """Compare and print.

    Raises
    ------
    InputError
        On what is wrong on the command line or in the files.
    RunError
        If a process fails.
    """
    from ..files import check_target, write_text
    from ..runtime.training.compare import WITHIN, compare_training
    from ..simulator.training.plan.file import TrainingPlan
    from ..simulator.training.plan.graph import known_graph, planned_graph

    if rounds < 1:
        raise InputError(f"--rounds: expected a positive integer (got {rounds})")
    if csv is not None:
        check_target(csv)
    loaded = {str(path): TrainingPlan.load(path) for path in plans}
    first, graph = None, None
    for path, plan in loaded.items():
        planned_graph(plan, path)  # checks it
        found = known_graph(plan, path)  # in its own order: plans may have orders of their own
        check_here(plan, sum(m.hosts * m.devices for m in plan.meshes))
        if first is None or graph is None:
            first, graph = path, found
        elif found is None or found.digest != graph.digest:
            raise InputError(f"{path}: trains another model than {first}; compare plans for the same model")
    if graph is None:
        raise InputError("compare: expected plan files (got none)")
    with status("comparing") as say:
        result = compare_training(loaded, graph, rounds=rounds, seed=seed, progress=say)
    rows: list[dict[str, Any]] = [
        {"plan": row.name, "simulated_s": row.simulated_s, "measured_s": row.measured_s, "difference": row.difference,
         "cores_ours": row.own}
        for row in result.rows
    ]  # fmt: skip
    if csv is not None:
        lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
        write_text(csv, "\n".join(lines) + "\n")
    if as_json:
        print_json({"plans": rows, "worst": result.worst, "ordered": result.ordered})
    else:
        typer.echo(str(result))
        if csv is not None:
            typer.echo(f"written: {csv}")
    if result.worst > WITHIN or not result.ordered:
        raise typer.Exit(1)
