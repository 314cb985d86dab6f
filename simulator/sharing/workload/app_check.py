"""What an app may be: checked once, when it is made."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from typing import TYPE_CHECKING

import numpy as np

from ....errors import InputError

if TYPE_CHECKING:
    from .app import App

__all__ = ["check_app"]

KINDS = ("jobs", "halving", "curve")


def check_app(app: App) -> None:
    """Raise what is wrong with an app.

    Raises
    ------
    InputError
        See `App`.
    """
    where = f"app {app.name!r}"
    if not (math.isfinite(app.arrival_s) and app.arrival_s >= 0):
        raise InputError(f"{where}: arrival_s: expected finite seconds >= 0 (got {app.arrival_s})")
    if app.kind not in KINDS:
        raise InputError(f"{where}: kind: expected one of {', '.join(KINDS)} (got {app.kind!r})")
    if not app.jobs or not app.phases:
        raise InputError(f"{where}: expected at least one job and one phase")
    if app.kind == "curve" and len(app.phases) > 1:
        raise InputError(f"{where}: an agent that goes by curves sees one phase (got {len(app.phases)})")
    if not (math.isfinite(app.budget_s) and app.budget_s >= 0):
        raise InputError(f"{where}: budget_s: expected finite GPU seconds >= 0 (got {app.budget_s})")
    if not (math.isfinite(app.believed_work) and app.believed_work > 0):
        raise InputError(f"{where}: believed_work: expected a finite factor > 0 (got {app.believed_work})")
    for number, phase in enumerate(app.phases):
        at = f"{where}: phase {number}"
        if not phase.jobs or len(set(phase.jobs)) != len(phase.jobs):
            raise InputError(f"{at}: expected different jobs (got {list(phase.jobs)})")
        if not all(0 <= j < len(app.jobs) for j in phase.jobs):
            raise InputError(f"{at}: there are {len(app.jobs)} jobs (got {list(phase.jobs)})")
        if len(phase.iterations) != len(phase.jobs):
            raise InputError(f"{at}: expected iterations of each of {len(phase.jobs)} jobs")
        if isinstance(phase.gpus, bool) or not isinstance(phase.gpus, int | np.integer) or phase.gpus < 0:
            raise InputError(f"{at}: gpus: expected an integer >= 0 (got {phase.gpus!r})")
        for j, iterations in zip(phase.jobs, phase.iterations, strict=True):
            if not (math.isfinite(iterations) and iterations > 0):
                raise InputError(f"{where}: job {j}: negative or no work: {iterations} iterations; expected > 0")
            if not math.isfinite(iterations * app.jobs[j].iteration_s):
                raise InputError(f"{where}: job {j}: more work than a number holds: {iterations} iterations")
            if app.jobs[j].gang > app.cap(number, j):
                raise InputError(
                    f"{at}: job {j} can use {phase.gpus} GPUs and does not run with fewer than {app.jobs[j].gang}; "
                    "make its gang smaller, or do without doubling"
                )
