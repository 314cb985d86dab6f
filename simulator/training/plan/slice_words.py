"""The token slices of a plan in words: which there are, and what Σ t + (K − 1) · max t is made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .file import TrainingPlan

__all__ = ["slice_dominates", "slice_lines", "tokens_text"]


def tokens_text(tokens: Sequence[int]) -> str:
    """``160 x 4, 128 x 3``: lengths in order, equal neighbours together."""
    runs = [(length, len(list(same))) for length, same in groupby(tokens)]
    return ", ".join(f"{length} x {n}" if n > 1 else f"{length}" for length, n in runs)


def slice_lines(plan: TrainingPlan) -> list[str]:
    """What is fed in which order; empty where microbatches are not sliced."""
    if not plan.slices:
        return []
    lines = ["slices, in the order in which they are fed:"]
    for entry in plan.slices:
        n = len(entry.tokens)
        lines.append(
            f"  {entry.count} microbatch(es) of {entry.samples} sample(s) in {n} slice{'s' if n > 1 else ''}: "
            f"{tokens_text(entry.tokens)} tokens"
        )
    return [*lines, ""]


def slice_dominates(plan: TrainingPlan) -> list[str]:
    """What the iteration's time is made of, by TeraPipe's Eq. 2.5 for each direction, without messages.

    The stage that computes longest takes Σ t; the others, filling and draining, what their longest slice takes.
    """
    counts = [entry.count for entry in plan.slices]
    totals: list[float] = []
    fills: list[float] = []
    for name in ("slice_forward_s", "slice_backward_s"):
        times = [getattr(stage, name) for stage in plan.stages]
        if not all(times):
            return ["the plan does not say what its slices take"]
        sums = [sum(n * sum(one) for n, one in zip(counts, mine, strict=True)) for mine in times]
        slow = max(range(len(sums)), key=sums.__getitem__)
        totals.append(sums[slow])
        fills.append(sum(max(max(one) for one in mine) for s, mine in enumerate(times) if s != slow))
    once = max(stage.reduce_s + stage.update_s for stage in plan.stages)
    total = sum(totals) + sum(fills) + once
    if total <= 0:
        return ["all stages take no time"]
    rows = (
        (totals[0], "forward passes of all slices on the slowest stage"),
        (totals[1], "their backward passes"),
        (sum(fills), "filling and draining the pipeline, a slice at a time"),
        (once, "gradient reduction and update, once"),
    )
    return [
        f"Σ t + (K - 1) max t over slices = {total:.4g} s an iteration:",
        *(f"  {part / total:>6.1%}  {said}" for part, said in rows),
    ]
