"""Which iterations of runs count: those in which ranks had their cores."""

from __future__ import annotations

from collections.abc import Sequence

from ....simulator.training.program.actions import Op
from ..result import TrainingRun

__all__ = ["UNDISTURBED", "counted", "own_shares"]

COMPUTE = (Op.F, Op.B, Op.W, Op.UPDATE)

UNDISTURBED = 0.98
"""Share of an iteration's computing time in which ranks must have had their cores for it to count. A guess: on a quiet
machine ranks have them for 99 % of it and more (docs/training-run.md); what is below was disturbed by others."""


def own_shares(run: TrainingRun) -> list[float]:
    """For each iteration the share of its computing time, collectives left out, in which ranks had their cores.

    What ranks that share a core took from each other counts as theirs, and so does what their own threads that move
    messages took.
    """
    shares: list[float] = []
    for ranks in run.spans:
        passes = [[span for span in mine if span.op in COMPUTE and not span.collective] for mine in ranks]
        if not any(passes):  # every pass has collectives: what they waited is not to be told from what others took
            cpu = sum(span.cpu for mine in ranks for span in mine)
            wall = sum(span.end - span.start - span.collective for mine in ranks for span in mine if span.op in COMPUTE)
        else:
            wall = sum(span.end - span.start for mine in passes for span in mine)
            cpu = 0.0
            for rank, mine in enumerate(passes):
                took = sum(span.end - span.start for span in mine)
                had = sum(span.cpu + span.helpers for span in mine)
                lent = sum(span.cpu + span.helpers for other in _beside(run, rank) for span in ranks[other])
                cpu += min(took, had + lent)
        shares.append(min(1.0, cpu / wall) if wall > 0 else 1.0)
    return shares


def _beside(run: TrainingRun, rank: int) -> list[int]:
    """Other ranks on the same cores, where these are fewer than their ranks."""
    mine = run.cores[rank] if run.cores else ()
    same = [other for other, cores in enumerate(run.cores) if mine and cores == mine]
    return [other for other in same if other != rank] if len(same) > len(mine) else []


def counted(runs: Sequence[TrainingRun]) -> list[tuple[int, int]]:
    """Iterations that count, as (run, iteration), in order.

    The first iteration of a run includes warm-up and never counts, unless it is the only one. Of the others those do in
    which ranks had their cores; if these are fewer than three, the three least disturbed.
    """
    every = [
        (own, r, i) for r, run in enumerate(runs) for i, own in enumerate(own_shares(run)) if i or len(run.seconds) == 1
    ]
    kept = [x for x in every if x[0] >= UNDISTURBED]
    if len(kept) < 3:
        kept = sorted(every, reverse=True)[:3]
    return sorted((r, i) for _, r, i in kept)
