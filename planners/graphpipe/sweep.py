"""`sweep`: collect the plans worth simulating, over microbatch sizes, bottlenecks and samples in flight.

The bottleneck alone (Eq. 3.1) is always least with a single microbatch of the whole batch, which is no pipeline. So the
paper plans for every microbatch size and takes the plan that trains fastest. This module does the same. For every size
it plans once with that size alone, and once with smaller sizes allowed beside it.

A pipeline whose first stage has C samples in flight takes about tps · (B + C − b) seconds. So besides the plan with the
least bottleneck, plans with fewer samples in flight and a slower bottleneck can be quicker, and are tried as well.
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
"""In a plan with several microbatch sizes, the largest is at most this many times the smallest. A guess: more would
multiply the configurations, and a stage that needs a far smaller microbatch than another is rare."""
SLACK = 1.05
"""A plan is worth a look if its rough estimate is within this factor of the best one's full estimate. The 5 % are a
guess at how far the rough formula above may be too high."""


@dataclass(frozen=True)
class Way:
    """A plan that was found, with its estimate.

    Parameters
    ----------
    partition : Partition
        The stages of this way.
    microbatch : int
        The largest microbatch size that was allowed.
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
    """Find all plans worth simulating, the best estimate first; also returns how many thresholds were solved.

    Parameters
    ----------
    candidates : Candidates
        The candidate stages.
    n_devices, global_batch : int
        Number of devices, and samples of an iteration.
    ks : sequence of int
        Values of k that kFkB may take.
    same_microbatch : bool
        Whether all stages must have the same microbatch size.
    trade : bool
        Whether plans with fewer samples in flight and a slower bottleneck are tried as well.
    about : callable
        Takes a partition and returns the estimated seconds of an iteration.
    known : sequence of Way
        Plans that were found elsewhere; they are part of the result, and prune plans that are worse.
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
    """The plan with the least bottleneck; then, as long as it may pay, plans with fewer samples in flight."""
    least, most = min(allowed), max(allowed)
    tps = partitioner.least(below=SLACK * best / global_batch)
    if tps is None:
        return []
    # By Table 3.2 a stage adds at most 2 k b samples, and there are at most as many stages as devices.
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
            # With one size, every microbatch less is worth a look; with several there are too many, so it is halved.
            held = held - most if len(set(allowed)) == 1 else held // 2
            if held < most:
                return found
            # tps · (B + C − b) must stay below the best: the bottleneck may be slower by as much as C is smaller.
            limit = SLACK * best / (global_batch + held - most)
            better = partitioner.least(held, below=limit, above=tps)
        tps, budget = better, held
