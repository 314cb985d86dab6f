"""Algorithm 2: the least seconds per sample that stages can reach, exactly, and the plan with the fewest in flight."""

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
    """Stages of a model.

    Parameters
    ----------
    stages : tuple of Stage
        In any order.
    tps : float
        Seconds per sample of the slowest.
    in_flight : int
        Most samples in flight on a stage.
    """

    stages: tuple[Stage, ...]
    tps: float
    in_flight: int


class Partitioner:
    """Exact search over the thresholds that seconds per sample can take.

    The paper bisects an interval to a precision ε. The least maximum is the value of some candidate stage; here these
    values are bisected, so that ε = 0.

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
            Samples in flight.
        below, above : float
            Only values under the one and from the other on are of interest.
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
        """The least of ascending budgets with which a plan of this TPS, which exists, still exists; else no bound."""
        low, high = 0, len(budgets)
        while low < high:
            middle = (low + high) // 2
            if self.search.fits(tps, int(budgets[middle])):
                high = middle
            else:
                low = middle + 1
        return int(budgets[high]) if high < len(budgets) else ANY

    def plans(self, tps: float, budget: int = ANY) -> list[Partition]:
        """Plans under a threshold and a budget, if there are any: on most devices, and on fewest."""
        return [
            Partition(stages, max(s.tps for s in stages), max(s.in_flight for s in stages))
            for stages in rebuild(self.search, tps, budget)
        ]
