"""Running: a placement on real data, held against eager, each group timed."""

from __future__ import annotations

import statistics
from typing import Any, cast

import pandas as pd

from ....files import write_text
from ....runtime.collage.placed import Placed, Timed
from ....runtime.collage.rounds import WARM, one_core
from ...before import one_plan
from ...door import Answer, Asked
from ...words import table
from ..options import RunOptions
from ..plan import InferencePlan
from .here import checked, compiler_of, network_of_plan, units_of
from .timeline import chrome_trace

__all__ = ["ran"]

SHOWN = 40
"""Groups that have a row each in the table; of more, each backend has one."""
SUMMED = ("operators", "planned_ms", "ms")


def ran(asked: Asked) -> Answer:
    """Run, check, and say what each group took.

    Raises
    ------
    InputError
        If the plan is of another processor, version or network, or a backend is missing.
    RunError
        If the result is not that of eager, or a backend fails.
    """
    options, plan = cast(RunOptions, asked.options), cast(InferencePlan, one_plan(asked))
    captured = network_of_plan(plan, asked.folder)
    placed = compiler_of(plan, captured).placed(units_of(plan))
    error = checked(placed)
    runs = _runs(placed, options.rounds)
    total = statistics.median(run.total_ms for run in runs)
    each = [statistics.median(run.unit_ms[k] for run in runs) for k in range(len(placed.units))]
    between = statistics.median(run.total_ms - sum(run.unit_ms) for run in runs)
    expected = {frozenset(group.nodes): group.cost_ms for group in plan.groups}
    rows: list[dict[str, Any]] = [
        {
            "group": k, "backend": unit.backend, "operators": len(unit.nodes), "first": unit.nodes[0],
            "planned_ms": expected[frozenset(unit.nodes)], "ms": ms,
        }
        for k, (unit, ms) in enumerate(zip(placed.units, each, strict=True))
    ]  # fmt: skip
    predicted = 1e3 * plan.predicted["latency_s"]
    by_backend = [
        {"backend": name, "groups": len(own), **{key: sum(row[key] for row in own) for key in SUMMED}}
        for name in dict.fromkeys(unit.backend for unit in placed.units)
        for own in [[row for row in rows if row["backend"] == name]]
    ]
    text = [
        f"{plan.model}, batch {plan.batch}: {len(rows)} groups, equal to eager (largest difference {error:.1e})",
        table(pd.DataFrame(rows if len(rows) <= SHOWN else by_backend)),
        f"a call: {total:.4g} ms of one core (median of {len(runs)}), predicted {predicted:.4g} ms; between groups "
        f"{between:.3g} ms ({between / total:.1%}); {placed.crossings} values go from one backend to another",
    ]
    document: dict[str, Any] = {
        "model": plan.model, "batch": plan.batch, "difference": error, "ms": total, "predicted_ms": predicted,
        "between_ms": between, "crossings": placed.crossings, "rounds": [run.total_ms for run in runs], "groups": rows,
    }  # fmt: skip
    written = ()
    if options.timeline is not None:
        write_text(options.timeline, chrome_trace(plan.model, [(u.backend, u.nodes) for u in placed.units], each))
        written = (options.timeline,)
    return Answer("\n".join(text), document, document, written=written)


def _runs(placed: Placed, rounds: int) -> list[Timed]:
    import torch

    example = placed.captured.example
    with one_core(), torch.inference_mode():
        for _ in range(WARM):
            placed(*example)
        return [placed.timed(*example) for _ in range(rounds)]
