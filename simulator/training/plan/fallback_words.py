"""Which operators of a plan are torch's own calls, that no loops say: replicated, or cut over the batch."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ....profiles.graph import Graph
    from .file import TrainingPlan

__all__ = ["fallback_lines"]

SHOWN = 8
"""Names in a line; of more, how many there are."""


def fallback_lines(plan: TrainingPlan, graph: Graph | None = None) -> list[str]:
    """How a plan runs its fallback operators: a line for those cut over the batch, one for those replicated; or none.

    Parameters
    ----------
    plan : TrainingPlan
        The plan.
    graph : Graph, optional
        Says why an operator is not cut.
    """
    found: dict[str, Counter[str]] = {"batch": Counter(), "replicated": Counter()}
    for stage in plan.stages:
        alone = stage.logical[0] * stage.logical[1] == 1
        for name, entry in stage.operators.items():
            if not entry.fallback:
                continue
            op = graph.operators[graph.index[name]] if graph is not None and name in graph.index else None
            why = str(op.attributes.get("whole", "")) if op is not None else ""
            if alone:
                why = " (on one device)"
            elif entry.fallback == "batch" or op is None:
                why = ""
            else:
                why = f" ({why or 'it may be cut, which costs more here'})"
            found[entry.fallback][re.sub(r"(?<=\.)\d+(?=\.)", "*", name) + why] += 1
    count = sum(map(Counter.total, found.values()))
    if not count:
        return []
    lines = [f"fallback: {count} operator{'s' * (count > 1)} kept as torch's own calls, whose loops are not known"]
    for how, said in (("batch", "cut over the batch"), ("replicated", "replicated")):
        names = [name if n == 1 else f"{name} x {n}" for name, n in found[how].items()]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        if names:
            lines.append(f"  {said}: {', '.join(names[:SHOWN])}{more}")
    return lines
