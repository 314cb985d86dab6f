"""Comparing: placements run in turn, held against what was predicted of them."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd

from ....errors import InputError
from ....files import write_text
from ....runtime.collage.placed import Placed
from ....runtime.collage.rounds import in_rounds
from ...door import Answer, Asked
from ...words import table
from ..options import CompareOptions
from ..plan import InferencePlan
from .here import checked, compiler_of, network_of_plan, units_of

__all__ = ["compared"]

EAGER = "eager"


def compared(asked: Asked) -> Answer:
    """Run all plans of one network in turn with torch's own eager run, and say how far off each prediction was.

    Raises
    ------
    InputError
        If the plans are of several networks or batches, or not of this machine.
    RunError
        If a result is not that of eager.
    """
    options, plans = cast(CompareOptions, asked.options), cast("dict[str, InferencePlan]", dict(asked.plans))
    first = next(iter(plans.values()))
    other = next((name for name, p in plans.items() if (p.model, p.batch) != (first.model, first.batch)), None)
    if other is not None:
        raise InputError(f"{other}: compare takes plans of one network and batch; this is of {plans[other].model}, "
                         f"batch {plans[other].batch}, the first of {first.model}, batch {first.batch}")  # fmt: skip
    if EAGER in plans:
        raise InputError(f"a plan is called {EAGER!r}, as torch's own run is; call it otherwise")
    captured = network_of_plan(first, asked.folder)
    placed = dict[str, Placed]()
    for name, plan in plans.items():
        asked.progress(name)
        placed[name] = compiler_of(plan, captured).placed(units_of(plan))
        checked(placed[name])
    timed = in_rounds({EAGER: captured.module, **placed}, captured.example, options.rounds)
    rows = list[dict[str, Any]]()
    for name, plan in plans.items():
        predicted, real = 1e3 * plan.predicted["latency_s"], timed.median(name)
        rows.append(
            {
                "plan": name, "predicted_ms": predicted, "real_ms": real, "error": predicted / real - 1,
                "over eager": 1 / timed.ratio(name, EAGER),
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows)
    written = ()
    if options.csv is not None:
        write_text(options.csv, frame.to_csv(index=False))
        written = (options.csv,)
    text = (
        f"{table(frame)}\neager: {timed.median(EAGER):.4g} ms; beside itself it differs by {timed.noise:.1%}: "
        "what lies within that is a tie"
    )
    document = {"plans": rows, "eager_ms": timed.median(EAGER), "noise": timed.noise}
    return Answer(text, document, frame, written=written)
