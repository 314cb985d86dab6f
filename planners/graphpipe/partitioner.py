"""`Partitioner` (Algorithm 2): the least seconds per sample that stages can reach, exactly.

Of the plans that reach it, it finds one with the fewest samples in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .candidates import Candidates
from .kernels import ANY
from .rebuild import Stage, rebuild
from .schedule.configs import Configs
from .search import Search

__all__ = ["Partition", "Partitioner"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Partition:
    """The stages of one plan.

    Parameters
    ----------
    stages : tuple of Stage
        In any order.
    tps : float
        Seconds per sample of the slowest stage.
    in_flight : int
        Most samples in flight on any stage.
    """

    stages: tuple[Stage, ...]
    tps: float
    in_flight: int


class Partitioner:
    """Exact search over the values that the bottleneck can take.

    The paper bisects an interval to a precision ε. But the bottleneck of a plan is the time of one of its stages. So
    here the times of all candidate stages are bisected, and the result is exact (ε = 0).

    Parameters
    ----------
    candidates, configs, n_devices
        See `Search`.
    """

    def __init__(self, candidates: Candidates, configs: Configs, n_devices: int) -> None:
        self.search, self.global_budget = Search(candidates, configs, n_devices), ANY
        used = candidates.tps[:, :, np.unique(configs.sizes)]
        holds = candidates.holds[:, :, np.unique(configs.sizes)] > 0
        self.thresholds: Floats = np.unique(used[np.isfinite(used) & holds])

    def least(self, budget: int = ANY, below: float = np.inf, above: float = 0.0) -> float | None:
        """The least seconds per sample with at most `budget` samples in flight; None if there is no plan.

        Parameters
        ----------
        budget : int
            Most samples in flight on a stage.
        below, above : float
            Only values less than `below`, and at least `above`, are searched.
        """
        low = int(np.searchsorted(self.thresholds, above))
        high = int(np.searchsorted(self.thresholds, below)) - 1
        if high < low or not self.search.fits(float(self.thresholds[high]), budget):
            return None
        while low < high:  # thresholds[high] can be reached
            middle = (low + high) // 2
            if self.search.fits(float(self.thresholds[middle]), budget):
                high = middle
            else:
                low = middle + 1
        return float(self.thresholds[high])

    def fewest(self, tps: float, budgets: npt.NDArray[np.int64]) -> int:
        """The least of ascending budgets under which a plan with this TPS still exists; `ANY` if none of them is
        enough.
        """
        low, high = 0, len(budgets)
        while low < high:
            middle = (low + high) // 2
            if self.search.fits(tps, int(budgets[middle])):
                high = middle
            else:
                low = middle + 1
        return int(budgets[high]) if high < len(budgets) else ANY

    def plans(self, tps: float, budget: int = ANY) -> list[Partition]:
        """Plans under a threshold and a budget, if there are any: one on the most devices, and one on the fewest."""
        return [
            Partition(stages, max(s.tps for s in stages), max(s.in_flight for s in stages))
            for stages in rebuild(self.search, tps, budget)
        ]
