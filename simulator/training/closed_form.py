"""Formulas with which planners estimate the time of an iteration; the simulation shows what they leave out."""

from __future__ import annotations

from .plan.file import TrainingPlan
from .plan.program import is_tied
from .program.transfers import chain, longest_paths

__all__ = ["closed_form"]


def closed_form(plan: TrainingPlan) -> float:
    """Seconds of an iteration by formula, with what is done once an iteration and no communication.

    Of a chain, Alpa's Eq. 2: Σ t + (B − 1) · max t, with what is done once spread over B. Of v stages on each of p
    meshes (interleaved 1F1B) Σ t + (w − 1) · max t, where w makes it B · v · t + (p − 1) · t of equal stages (Narayanan
    et al. 2021, §2.2). Where stages form a graph or have microbatches of their own, the most that a stage takes: the
    longest path through it, and each of its own microbatches but the first. Of token slices, TeraPipe's Eq. 2.5 in each
    direction: Σ t + (K − 1) · max t over the slices of all microbatches, K the stages of the longest path and t the
    slowest stage's, and then what is done once.
    """
    stages, counts = plan.stages, plan.microbatches_of
    edges = [(t.source, t.target) for t in plan.transfers if not is_tied(plan, t)] or chain(len(stages))
    depth = longest_paths(len(stages), edges)
    if plan.slices:
        once = max(s.reduce_s + s.update_s for s in stages)
        return once + sum(_fed(plan, [getattr(s, way) for s in stages], max(depth)) for way in _WAYS)
    t = [
        s.forward_s + s.backward_input_s + s.backward_weight_s + (s.reduce_s + s.update_s) / n
        for s, n in zip(stages, counts, strict=True)
    ]
    if len(plan.meshes) < len(stages):
        return sum(t) + (_rounds(counts[0], len(plan.meshes), len(stages)) - 1) * max(t)
    before, after = list(t), list(t)  # longest paths that end and begin at a stage
    order = sorted(range(len(stages)), key=lambda s: -depth[s])
    for s in order:
        before[s] += max((before[a] for a, b, *_ in edges if b == s), default=0.0)
    for s in reversed(order):
        after[s] += max((after[b] for a, b, *_ in edges if a == s), default=0.0)
    return max(before[s] + after[s] - t[s] + (n - 1) * t[s] for s, n in enumerate(counts))


def _rounds(microbatches: int, meshes: int, stages: int) -> int:
    """w of `stages` stages that go round the meshes. Fewer microbatches than meshes leave gaps in every round."""
    return max(microbatches * (stages // meshes) + meshes - stages, microbatches)


_WAYS = ("slice_forward_s", "slice_backward_s")


def _fed(plan: TrainingPlan, seconds: list[tuple[tuple[float, ...], ...]], stages: int) -> float:
    """Seconds of one direction: every slice on the slowest stage, and the longest slice on each other stage."""
    slowest = [
        [max(column) for column in zip(*(of[e] for of in seconds), strict=True)] for e in range(len(plan.slices))
    ]
    total = sum(entry.count * sum(row) for entry, row in zip(plan.slices, slowest, strict=True))
    return total + (stages - 1) * max(map(max, slowest))
