"""Which microbatches, bottleneck and samples in flight go together: plans worth simulating, the most promising first.

The bottleneck alone (Eq. 3.1) is always the least with one microbatch of the whole batch, which is no pipeline. The
paper plans for every microbatch size and takes what trains fastest. So does this: for every largest microbatch, with
stages of this size alone and with smaller ones beside it. A pipeline whose first stage has C samples in flight takes
about tps · (B + C − b), so that besides the least bottleneck plans with fewer in flight are looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .candidates import Candidates
from .partitioner import Partition, Partitioner
from .schedule.configs import Configs

__all__ = ["Way", "sweep"]

SMALLEST = 8
"""How many times smaller than the largest a microbatch may be in a plan with several sizes."""
SLACK = 1.05
"""A plan is worth a look if its rough estimate is within this factor of the best one's exact estimate."""


@dataclass(frozen=True)
class Way:
    """A plan that was found.

    Parameters
    ----------
    partition : Partition
        Its stages.
    microbatch : int
        Largest that was allowed.
    about_s : float
        Estimated seconds of an iteration.
    """

    partition: Partition
    microbatch: int
    about_s: float


def sweep(
    candidates: Candidates,
    n_devices: int,
    global_batch: int,
    *,
    ks: Sequence[int],
    same_microbatch: bool,
    trade: bool,
    about: Callable[[Partition], float],
    known: Sequence[Way] = (),
) -> tuple[list[Way], int]:
    """All plans worth simulating, best estimate first, and how many thresholds were solved.

    Parameters
    ----------
    candidates : Candidates
        Stages.
    n_devices, global_batch : int
        Devices and B.
    ks : sequence of int
        k of kFkB.
    same_microbatch : bool
        Whether all stages take one size.
    trade : bool
        Whether fewer samples in flight are traded for a slower bottleneck.
    about : callable
        Estimated seconds of an iteration.
    known : sequence of Way
        Plans found elsewhere, with which these are to compete.
    """
    found = list(known)
    solved = 0
    sizes = candidates.microbatches
    sets = [(b,) for b in sizes]
    if not same_microbatch:
        sets += [tuple(s for s in sizes if b // SMALLEST <= s <= b) for b in sizes if b > sizes[0]]
    for allowed in sets:
        partitioner = Partitioner(candidates, Configs.of(allowed, ks, sizes), n_devices)
        best = min((way.about_s for way in found), default=np.inf)
        for partition in _trades(partitioner, allowed, max(ks), n_devices, global_batch, best, trade, about):
            found.append(Way(partition, max(allowed), about(partition)))
        solved += partitioner.search.solved
    return sorted(found, key=lambda way: way.about_s), solved


def _trades(
    partitioner: Partitioner, allowed: Sequence[int], k: int, n_devices: int, global_batch: int, best: float,
    trade: bool, about: Callable[[Partition], float],
) -> list[Partition]:  # fmt: skip
    """The least bottleneck with the fewest in flight; then, as long as it may pay, fewer with a slower one."""
    least, most = min(allowed), max(allowed)
    tps = partitioner.least(below=SLACK * best / global_batch)
    if tps is None:
        return []
    budgets = np.arange(least, 2 * k * (n_devices + 1) * most + 1, least, dtype=np.int64)
    budget = partitioner.fewest(tps, budgets)
    found: list[Partition] = []
    while True:
        made = partitioner.plans(tps, budget)
        found += made
        best = min(best, *map(about, made))
        if not trade:
            return found
        held = made[0].in_flight
        better = None
        while better is None:
            held = held - most if len(set(allowed)) == 1 else held // 2
            if held < most:
                return found
            limit = SLACK * best / (global_batch + held - most)
            better = partitioner.least(held, below=limit, above=tps)
        tps, budget = better, held
