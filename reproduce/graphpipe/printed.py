"""The two searches as the chapter prints them, in plain Python on the same prices: what a comparison of loops gives.

`pipedream_loops` is the recurrence of PipeDream over one line of units; `graphpipe_loops` is Algorithm 2, with 1F1B and
one microbatch size for all stages. Both use all devices, look every price up in a table that was made before, and count
what they try. Nothing plans with them: they are here for Table 3.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ...planners.graphpipe.tree import Branch, Parallel, Series
from ...planners.stages.costs import StageCosts

__all__ = ["Apart", "Searched", "graphpipe_loops", "pipedream_loops"]

Apart = Literal["one", "groups"]
"""How Algorithm 2's PARALLELDECOMPOSE, which is not printed, parts branches: one from the others, or at any place."""

EPSILON = 0.01
"""Algorithm 2 ends when the interval is this share of its upper end; the chapter prints no ε."""

Parts = tuple[int | Parallel, ...]


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found and how much it tried.

    Parameters
    ----------
    tps : float
        Seconds per sample of the slowest stage; inf: nothing fits.
    tried : int
        Ways of cutting a part into two, or of running it as one stage, that were tried.
    """

    tps: float
    tried: int


@dataclass
class _Prices:
    """Seconds per sample and microbatches that fit, of sets of units at one microbatch size; looked up once each."""

    costs: StageCosts
    microbatch: int
    memory_bytes: float
    known: dict[tuple[int, ...], dict[int, tuple[float, float]]] = field(
        default_factory=dict[tuple[int, ...], dict[int, tuple[float, float]]]
    )

    def of(self, units: tuple[int, ...]) -> dict[int, tuple[float, float]]:
        """Devices -> (seconds per sample, microbatches that fit)."""
        if units not in self.known:
            mask = np.zeros((1, self.costs.n_units), bool)
            mask[0, list(units)] = True
            sets, found = self.costs.of_sets(mask), dict[int, tuple[float, float]]()
            for d in self.costs.devices:
                tps = float(self.costs.tps(sets, self.microbatch, d)[0])
                free = float(self.costs.memory(sets, self.microbatch, d, 0)[0])
                each = float(self.costs.memory(sets, self.microbatch, d, self.microbatch)[0]) - free
                if math.isfinite(tps) and free <= self.memory_bytes:
                    room = self.memory_bytes - free
                    found[d] = (tps, math.inf if each <= 0 else math.floor(room / each * (1 + 1e-12)))
            self.known[units] = found
        return self.known[units]


def pipedream_loops(costs: StageCosts, microbatch: int, memory_bytes: float, n_devices: int) -> Searched:
    """PipeDream's recurrence: the least bottleneck of units i … on m devices, over every first stage of them.

    A stage on d of m devices keeps ⌈m / d⌉ microbatches (SOSP '19, §3.1).

    Parameters
    ----------
    costs : StageCosts
        Prices of stages.
    microbatch : int
        Samples of a microbatch.
    memory_bytes : float
        Memory of a device.
    n_devices : int
        Devices, all of which are used.
    """
    prices, n, tried = _Prices(costs, microbatch, memory_bytes), costs.n_units, 0
    best: list[list[float]] = [[math.inf] * (n_devices + 1) for _ in range(n)] + [[0.0] + [math.inf] * n_devices]
    for i in reversed(range(n)):
        for j in range(i + 1, n + 1):
            stage = prices.of(tuple(range(i, j)))
            for m in range(1, n_devices + 1):
                for d in range(1, m + 1):
                    tried += 1
                    if d in stage and stage[d][1] >= -(-m // d):
                        best[i][m] = min(best[i][m], max(stage[d][0], best[j][m - d]))
    return Searched(best[0][n_devices], tried)


def graphpipe_loops(
    tree: Series, costs: StageCosts, microbatch: int, memory_bytes: float, n_devices: int, apart: Apart = "groups"
) -> Searched:
    """Algorithm 2: an interval of bottlenecks is bisected; under each, the fewest microbatches in flight are found.

    Parameters
    ----------
    tree : Series
        Units in series and in parallel.
    costs, microbatch, memory_bytes, n_devices
        As for `pipedream_loops`.
    apart : {"one", "groups"}
        How branches are parted.
    """
    prices, tried = _Prices(costs, microbatch, memory_bytes), 0
    whole = prices.of(tree.units)
    low, high = 0.0, 2 * max((t for t, _ in whole.values()), default=math.inf)
    if not math.isfinite(high):  # not even the weights of all units fit: any safe bound will do
        seconds = costs.seconds.sum(axis=(0, 1))
        high = 2 * float(seconds.max())

    def fits(limit: float) -> bool:
        nonlocal tried
        known: dict[tuple[tuple[int, ...], int, int], float] = {}

        def fewest(parts: Parts, held: int, d: int) -> float:
            """DP(G, c_f, c_b, d): fewest microbatches in flight on the first stage; `held`: those of the next one."""
            nonlocal tried
            units, alone = Series(parts).units, parts[0]
            key = (units, held, d)
            if key in known:
                return known[key]
            tried += 1
            stage = prices.of(units).get(d)
            found = held + 1.0 if stage is not None and stage[0] <= limit and stage[1] >= held + 1 else math.inf
            if len(parts) > 1:
                for cut in range(1, len(parts)):
                    for last in range(1, d):
                        tried += 1
                        middle = fewest(parts[cut:], held, last)
                        if math.isfinite(middle):
                            found = min(found, fewest(parts[:cut], int(middle), d - last))
            elif isinstance(alone, Parallel):
                for one, other in _apart(alone, apart):
                    for mine in range(1, d):
                        tried += 1
                        found = min(found, max(fewest(one, held, mine), fewest(other, held, d - mine)))
            known[key] = found
            return found

        return math.isfinite(fewest(tree.children, 0, n_devices))

    if not fits(high):
        return Searched(math.inf, tried)
    while high - low > EPSILON * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return Searched(high, tried)


def _apart(part: Parallel, apart: Apart) -> list[tuple[Parts, Parts]]:
    """The ways of parting branches into some first ones and the others."""
    members = [m for branch in part.branches for m in branch.members]

    def beside(some: list[Series]) -> Parts:
        return some[0].children if len(some) == 1 else (Parallel(tuple(Branch((m,)) for m in some)),)

    cuts = range(1, 2 if apart == "one" else len(members))
    return [(beside(members[:k]), beside(members[k:])) for k in cuts]
