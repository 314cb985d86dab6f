"""Sharing: some apps under Themis, simulated and really trained under its arbiter."""

from __future__ import annotations

import numpy as np

from ....errors import RunError
from ....planners.themis import Themis
from ....runtime.sharing import RunOptions
from ....runtime.sharing.compare import compare_sharing
from ....runtime.sharing.dozen import dozen
from ..line import Errors, Line
from ..machine import Machine
from . import Tell

__all__ = ["lines"]

APPS, TIME_SCALE = 6, 150.0
"""Half of the dozen that docs/sharing-run.md runs, at half again its pace: some twenty seconds."""


def lines(machine: Machine, seed: int, tell: Tell) -> tuple[Line, ...]:
    """Run and simulate; the time from arrival to end of each app.

    Raises
    ------
    RunError
        If no app completed.
    """
    tell(f"sharing: {APPS} apps under themis")
    world = dozen(seed, apps=APPS)
    found = compare_sharing(world, Themis(), RunOptions(time_scale=TIME_SCALE, seed=seed))
    # The comparison has real over simulated; here, as everywhere on the page, it is predicted over real.
    off = 1.0 / (1.0 + found.completion_error) - 1.0
    done = np.isfinite(off)
    if not done.any():
        raise RunError(f"sharing: no app completed ({'; '.join(map(str, found.real.lost)) or 'none was lost'})")
    lost = f"; {int((~done).sum())} did not complete" if not done.all() else ""
    return (
        Line(
            "here", "sharing", f"seconds from arrival to end of {int(done.sum())} apps under themis{lost}",
            "the sharing world with the policy that ran; container and checkpoint as measured in the run",
            "this machine", machine.name, machine.date, "partly",
            "arrivals, sizes and slowdowns are given to both; the medians of container and checkpoint are those of the "
            f"run itself; decisions were alike until number {found.same_grants} of {len(found.simulated.grants)}",
            "made now; `python -m meshwright.runtime.sharing.compare` does it for more apps and policies",
            Errors.of((100 * off[done]).tolist(), "%"),
        ),
    )  # fmt: skip
