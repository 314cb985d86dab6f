"""`simulate_goodput`: whole training runs on machines that fail."""

from __future__ import annotations

import math
from typing import Literal, get_args

from ....errors import InputError
from .checkpoints import Checkpoints
from .lives import keys_of
from .machines import Machines
from .result import GoodputResult

__all__ = ["MOST_FAILURES", "simulate_goodput"]

MOST_FAILURES = 100_000
"""Failures after which a run is given up: with so many it hardly comes forward, and its goodput is known."""

MOST_RUNS = 100_000

Engine = Literal["compiled", "simpy"]


def simulate_goodput(
    work_s: float,
    machines: Machines,
    checkpoints: Checkpoints,
    *,
    runs: int = 20,
    seed: int = 0,
    engine: Engine = "compiled",
    most_failures: int = MOST_FAILURES,
) -> GoodputResult:
    """Simulate training runs of so much work, independent of each other.

    Parameters
    ----------
    work_s : float
        Seconds of computing that a run takes without failures.
    machines, checkpoints : Machines, Checkpoints
        What fails; what is saved.
    runs : int
        How many, at least 2: one has no interval.
    seed : int
        Of all lives and repairs. Lives of a node do not depend on anything else.
    engine : {"compiled", "simpy"}
        The fast engine, or the readable reference with the same results.
    most_failures : int
        Failures after which a run is given up.

    Raises
    ------
    InputError
        On an argument out of its range.
    """
    if not (math.isfinite(work_s) and work_s > 0):
        raise InputError(f"goodput: work_s: expected finite seconds > 0 (got {work_s})")
    if isinstance(runs, bool) or not 2 <= runs <= MOST_RUNS:
        raise InputError(f"goodput: runs: expected 2 to {MOST_RUNS} of them, for an interval (got {runs!r})")
    if engine not in get_args(Engine):
        raise InputError(f"goodput: engine: expected compiled or simpy (got {engine!r})")
    if most_failures < 1:
        raise InputError(f"goodput: most_failures: expected at least 1 (got {most_failures})")
    if engine == "compiled":
        from .compiled import run_compiled as run
    else:
        from .reference import run_reference as run
    total = machines.nodes + machines.spares
    records = tuple(
        run(work_s, machines, checkpoints, keys_of(total, seed, number), most_failures) for number in range(runs)
    )
    return GoodputResult(work_s, machines, checkpoints, records)
