"""Planning for the loss of any one device or node (N-1): a plan is as good as what it attains after the worst loss.

A loss takes every group that has a device of what is lost. Which groups share a node matters then, so groups are
arranged on nodes: one by one, the largest first, each goes to the node whose groups hold the fewest requests' models
in common with it; for the answer, swaps of groups of one size are tried too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InputError
from ...simulator.placement import Group, Placement
from .baselines import uniform_groups
from .evaluator import Evaluator, GroupState, State, canonical, members
from .selection import fast_selection

__all__ = ["Arranged", "Survival", "equal_groups"]

Arranged = tuple[tuple[GroupState, tuple[int, ...]], ...]
"""Groups with the devices of each."""


@dataclass(frozen=True, eq=False)
class Survival:
    """What states attain after the worst single loss.

    Parameters
    ----------
    evaluator : Evaluator
        Scores what is left.
    loss : {"device", "node"}
        What is lost.

    Raises
    ------
    InputError
        If the cluster has but one node, and nodes are lost: nothing survives it.
    """

    evaluator: Evaluator
    loss: str

    def __post_init__(self) -> None:
        cluster = self.evaluator.instance.cluster
        if self.loss == "node" and cluster.nodes == 1:
            raise InputError(f"survive: node: the cluster has one node ({cluster}), and nothing survives its loss")

    def arrange(self, state: State) -> Arranged:
        """The groups of a state on devices."""
        cluster, configs = self.evaluator.instance.cluster, self.evaluator.instance.configs
        counts = self.evaluator.instance.counts
        width = cluster.devices_per_node
        free = [list(range(n * width, (n + 1) * width)) for n in range(cluster.nodes)]
        held = [0] * cluster.nodes
        placed: list[tuple[GroupState, tuple[int, ...]]] = []
        for group in sorted(state, key=lambda g: (-configs[g[0]].n_devices, g)):
            left, mine = configs[group[0]].n_devices, list[int]()
            while left:
                roomy = [n for n in range(cluster.nodes) if len(free[n]) >= min(left, width)]
                roomy = roomy or [max(range(cluster.nodes), key=lambda n: (len(free[n]), -n))]

                def shared(n: int, mask: int = group[1]) -> tuple[int, int, int]:
                    return sum(int(counts[m]) for m in members(mask & held[n])), -len(free[n]), n

                node = min(roomy, key=shared)
                taken, free[node] = free[node][:left], free[node][left:]
                held[node] |= group[1]
                mine += taken
                left -= len(taken)
            placed.append((group, tuple(mine)))
        return tuple(placed)

    def unserved(self, arranged: Arranged, limit: int | None = None) -> int | None:
        """Requests that miss their SLO after the worst loss; None as soon as they are known to exceed `limit`."""
        worst = 0
        for left in self._left(arranged):
            lost = self.evaluator.unserved(left, limit)
            if lost is None:
                return None
            worst = max(worst, lost)
        return worst

    def attainment(self, arranged: Arranged) -> float:
        """Fraction of all requests attained after the worst loss."""
        lost = self.unserved(arranged)
        assert lost is not None
        return 1 - lost / self.evaluator.instance.n_requests

    def objective(self, state: State, limit: int | None) -> int | None:
        """What the local search makes small: unserved after the worst loss, then unserved while all is well."""
        n = self.evaluator.instance.n_requests + 1
        worst = self.unserved(self.arrange(state), None if limit is None else limit // n)
        if worst is None:
            return None
        value = worst * n + self.evaluator.total(state)
        return None if limit is not None and value > limit else value

    def improved(self, arranged: Arranged) -> Arranged:
        """Swaps groups of one size between nodes as long as that helps after the worst loss."""
        if self.loss == "device":
            return arranged
        best, worst = arranged, self.unserved(arranged)
        assert worst is not None
        better = True
        while better:
            better = False
            for a in range(len(best)):
                for b in range(a):
                    if len(best[a][1]) != len(best[b][1]) or best[a][0] == best[b][0]:
                        continue
                    other = list(best)
                    other[a], other[b] = (best[a][0], best[b][1]), (best[b][0], best[a][1])
                    after = self.unserved(tuple(other), worst - 1)
                    if after is not None:
                        best, worst, better = tuple(other), after, True
        return best

    def placement(self, arranged: Arranged) -> Placement:
        """The placement, groups in canonical order: what is simulated is what was scored."""
        i = self.evaluator.instance
        ordered = sorted(arranged)
        return Placement(
            [Group(i.configs[c], [i.models[m] for m in members(mask)], devices) for (c, mask), devices in ordered]
        )

    def _left(self, arranged: Arranged) -> Sequence[State]:
        """What is left after each loss; equal ones once."""
        if self.loss == "device":
            groups = [group for group, _ in arranged]
            return list({canonical(g for i, g in enumerate(groups) if i != gone): None for gone in range(len(groups))})
        cluster = self.evaluator.instance.cluster
        return list(
            {
                canonical(g for g, devices in arranged if all(cluster.node_of(d) != node for d in devices)): None
                for node in range(cluster.nodes)
            }
        )


def equal_groups(evaluator: Evaluator) -> list[State]:
    """Fast selections for equal groups of each configuration that fits the cluster and some model."""
    i = evaluator.instance
    return [
        fast_selection(evaluator, uniform_groups(i, config)).state
        for c, config in enumerate(i.configs)
        if config.n_devices <= i.n_devices and i.fits[c].any()
    ]
