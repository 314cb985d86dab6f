"""`by_turns`: of two iterations one after the other, one tells how fast the machine is and one is compared."""

from __future__ import annotations

from collections.abc import Sequence

from ..measure.cores import UNDISTURBED, own_shares
from ..result import TrainingRun

__all__ = ["by_turns"]

FEWEST = 3
"""Pairs that count, however disturbed: as `measure.cores.counted` keeps three iterations."""


def by_turns(runs: Sequence[TrainingRun]) -> tuple[list[TrainingRun], list[TrainingRun]]:
    """Part runs into the iterations that tell and those that are compared, as runs of their own.

    Iterations are taken in pairs, neighbours in time, after the first, which is warm-up. In one pair the earlier
    tells, in the next the later, so that a machine that becomes slower evenly does so for both. A pair counts where
    ranks had their cores in both of its iterations (`UNDISTURBED`): else rounds in which the machine was slow might
    weigh more on one side than on the other. If fewer than three pairs count, the three least disturbed do. A run
    without a pair that counts is left out.

    Parameters
    ----------
    runs : sequence of TrainingRun
        Runs of one plan, of an odd number of iterations each: the first, and pairs.

    Returns
    -------
    told, judged : list of TrainingRun
        Equally many, each with its run's first iteration before those that count.
    """
    pairs: list[tuple[float, int, int, int]] = []  # the less undisturbed one's share, the run, who tells, who is judged
    for r, run in enumerate(runs):
        shares = own_shares(run)
        for number, first in enumerate(range(1, len(run.seconds) - 1, 2)):
            tells, judged = (first, first + 1) if number % 2 == 0 else (first + 1, first)
            pairs.append((min(shares[first], shares[first + 1]), r, tells, judged))
    kept = [pair for pair in pairs if pair[0] >= UNDISTURBED]
    if len(kept) < FEWEST:
        kept = sorted(pairs, reverse=True)[:FEWEST]
    told: list[TrainingRun] = []
    compared: list[TrainingRun] = []
    for r in sorted({pair[1] for pair in kept}):
        told.append(runs[r].only([0, *sorted(tells for _, q, tells, _ in kept if q == r)]))
        compared.append(runs[r].only([0, *sorted(judged for _, q, _, judged in kept if q == r)]))
    return told, compared
