"""`split`: how an app divides its GPUs over the jobs that run side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..cluster import SharedCluster
from ..workload.app import Slowdown
from .nearness import pick

__all__ = ["RunningJob", "rate", "split"]


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job of an app's present phase that is not done.

    Parameters
    ----------
    job : int
        Position in the app's jobs.
    left_s : float
        GPU seconds that are left of it.
    cap, gang : int
        GPUs that it can use at most, and without which it does not run.
    gpus : tuple of int
        Those that it has.
    """

    job: int
    left_s: float
    cap: int
    gang: int
    gpus: tuple[int, ...] = ()


def rate(cluster: SharedCluster, slowdown: Slowdown, gpus: Sequence[int], cap: int, gang: int) -> float:
    """GPU seconds of work per second that a job does on `gpus`: min(n, cap)/S(level); 0 below its gang (Equation 1)."""
    if len(gpus) < max(gang, 1):
        return 0.0
    return min(len(gpus), cap) / slowdown.levels[cluster.level(gpus)]


def split(
    cluster: SharedCluster, gpus: Sequence[int], jobs: Sequence[RunningJob], slowdown: Slowdown, restart_s: float = 0.0
) -> Mapping[int, tuple[int, ...]]:
    """Give each job its GPUs. Whoever runs keeps what the app still has; the rest goes to others.

    1. A job keeps its GPUs that the app still has; with fewer than its gang it gives them up.
    2. Jobs that have none start, those with the most work left first, as long as their gangs fit; what then remains
       is dealt out one by one to the job with the fewest (of equals the one with the most work left) below its cap.
    3. A job that ran grows only if that pays: the time saved must exceed the restart.
    4. Jobs choose in order of how many they get, each the nearest (`pick`).

    Parameters
    ----------
    gpus : sequence of int
        All of the app's.
    jobs : sequence of RunningJob
        Those not done.
    restart_s : float
        What a change costs a job that runs, seconds.

    Returns
    -------
    mapping of int to tuple of int
        For every job its GPUs, ascending; () where it waits.
    """
    mine = set(gpus)
    held = {j.job: tuple(sorted(mine.intersection(j.gpus))) for j in jobs}
    held = {j.job: held[j.job][: j.cap] if len(held[j.job]) >= j.gang else () for j in jobs}
    untouched = {j.job: len(held[j.job]) == len(j.gpus) for j in jobs}
    pool = mine.difference(*held.values()) if held else mine
    by_work = sorted(jobs, key=lambda j: (-j.left_s, j.job))
    counts = {j.job: len(held[j.job]) for j in jobs}
    spare = len(pool)
    for j in by_work:
        if counts[j.job] == 0 and j.gang <= spare:
            counts[j.job] = j.gang
            spare -= j.gang
    while spare:
        able = [j for j in by_work if 0 < counts[j.job] < j.cap]
        if not able:
            break
        least = min(able, key=lambda j: counts[j.job])
        counts[least.job] += 1
        spare -= 1
    for j in sorted(jobs, key=lambda j: (-(counts[j.job] - len(held[j.job])), -j.left_s, j.job)):
        wanted = counts[j.job] - len(held[j.job])
        if wanted <= 0:
            continue
        more = pick(cluster, pool, wanted, held[j.job])
        grown = tuple(sorted((*held[j.job], *more)))
        if held[j.job] and untouched[j.job]:
            now = rate(cluster, slowdown, held[j.job], j.cap, j.gang)
            then = rate(cluster, slowdown, grown, j.cap, j.gang)
            if j.left_s / then + restart_s >= j.left_s / now:
                continue  # not even where both are equal: a restart that gains nothing is only a risk
        held[j.job] = grown
        pool = pool.difference(more)
    return held
