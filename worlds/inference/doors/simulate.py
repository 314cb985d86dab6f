"""Simulating: a placement's call as its measured costs add up, group by group."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pandas as pd

from ....files import write_bytes, write_text
from ...door import Answer, Asked
from ...words import table
from ..options import SimulateOptions
from ..plan import InferencePlan
from ..result import InferenceResult
from .picture import picture
from .timeline import chrome_trace

__all__ = ["simulated"]


def simulated(asked: Asked) -> Answer:
    """A row for each plan; no torch is needed, all stands in the plans."""
    options = cast(SimulateOptions, asked.options)
    plans = cast("dict[str, InferencePlan]", dict(asked.plans))
    results = {name: InferenceResult(plan) for name, plan in plans.items()}
    found = {name: result.metrics for name, result in results.items()}
    rows = [
        {
            "plan": name, "model": plan.model, "batch": plan.batch, "groups": len(plan.groups),
            "ms": 1e3 * found[name]["latency_s"], "samples/s": found[name]["samples_per_s"],
            "crossings": int(found[name]["n_crossings"]),
            "best alone ms": 1e3 * found[name]["single_s"] if "single_s" in found[name] else float("nan"),
        }
        | ({"within slo": "yes" if found[name]["attainment"] else "no"} if plan.slo is not None else {})
        for name, plan in plans.items()
    ]  # fmt: skip
    written = list[Path]()
    if options.timeline is not None:
        plan = next(iter(plans.values()))
        groups = [(group.backend, group.nodes) for group in plan.groups]
        write_text(options.timeline, chrome_trace(plan.model, groups, [group.cost_ms for group in plan.groups]))
        written.append(options.timeline)
    if options.png is not None:
        write_bytes(options.png, picture(next(iter(plans.values()))))
        written.append(options.png)
    document: dict[str, Any] = {"plans": [{"plan": name, **values} for name, values in found.items()]}
    value = next(iter(results.values())) if len(results) == 1 else results
    return Answer(table(pd.DataFrame(rows)), document, value, written=tuple(written))
