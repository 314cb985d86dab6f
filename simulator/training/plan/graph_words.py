"""A plan whose stages are no chain in words: who follows whom, microbatches of their own, the longest path."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ..program.transfers import longest_paths
from .program import is_tied

if TYPE_CHECKING:
    from .file import TrainingPlan

__all__ = ["StageGraph", "stage_graph"]


@dataclass(frozen=True)
class StageGraph:
    """The stages of a plan as a graph.

    Parameters
    ----------
    before : tuple of tuple of int
        For each stage, those whose results it reads, ascending.
    behind : tuple of int
        For each stage, how many stages the longest path from it to a last stage has, itself included.
    weight : tuple of float
        For each stage, seconds of its microbatch's forward and backward pass.
    """

    before: tuple[tuple[int, ...], ...]
    behind: tuple[int, ...]
    weight: tuple[float, ...]

    @property
    def depth(self) -> int:
        """Stages of the longest path (GraphPipe §3.2: the diameter of the stage graph)."""
        return max(self.behind)

    @property
    def branches(self) -> bool:
        """Whether some stages do not wait for each other."""
        return self.depth < len(self.before)

    @property
    def firsts(self) -> tuple[int, ...]:
        """Stages that read no other's results."""
        return tuple(s for s, sources in enumerate(self.before) if not sources)

    def path(self, through: int) -> tuple[int, ...]:
        """The path through a stage that takes longest."""
        order = sorted(range(len(self.before)), key=lambda s: (-self.behind[s], s))
        to, after = dict[int, float](), dict[int, float]()
        for s in order:
            to[s] = self.weight[s] + max((to[b] for b in self.before[s]), default=0.0)
        followers: list[list[int]] = [[] for _ in self.before]
        for s, sources in enumerate(self.before):
            for source in sources:
                followers[source].append(s)
        for s in reversed(order):
            after[s] = self.weight[s] + max((after[f] for f in followers[s]), default=0.0)
        found = [through]
        while self.before[found[0]]:
            found.insert(0, max(self.before[found[0]], key=lambda s: (to[s], -s)))
        while followers[found[-1]]:
            found.append(max(followers[found[-1]], key=lambda s: (after[s], -s)))
        return tuple(found)

    def lines(self) -> list[str]:
        """The graph in words, where it branches; nothing of a chain."""
        if not self.branches:
            return []
        ends = [s for s, n in enumerate(self.behind) if n == 1]
        return [
            f"stages form a graph of depth {self.depth} ({len(self.before)} stages); they start at "
            f"{_listed(self.firsts)} and end at {_listed(ends)}"
        ]


def stage_graph(plan: TrainingPlan) -> StageGraph:
    """The stages of a plan as a graph; a plan that names no transfers is a chain.

    Raises
    ------
    InputError
        If transfers go round in a circle.
    """
    n = len(plan.stages)
    edges = {(t.source, t.target) for t in plan.transfers if not is_tied(plan, t)}
    if not edges:
        edges = set(pairwise(range(n)))
    return StageGraph(
        tuple(tuple(sorted(a for a, b in edges if b == s)) for s in range(n)),
        longest_paths(n, sorted(edges)),
        tuple(s.forward_s + s.backward_input_s + s.backward_weight_s for s in plan.stages),
    )


def _listed(stages: tuple[int, ...] | list[int]) -> str:
    """``stage 3``; ``stages 0, 4 and 8``; of many, the first and the last."""
    texts = [str(s) for s in stages]
    if len(texts) == 1:
        return f"stage {texts[0]}"
    if len(texts) > 6:
        return f"{len(texts)} stages ({texts[0]}, {texts[1]}, … {texts[-1]})"
    return f"stages {', '.join(texts[:-1])} and {texts[-1]}"
