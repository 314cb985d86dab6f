"""What a model selection is, and what the selection algorithms share: which replica may go where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..evaluator import Evaluator, GroupState, State, members
from ..instance import Instance

__all__ = ["Room", "Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Outcome of a selection algorithm.

    Parameters
    ----------
    state : State
        Who holds what.
    unserved : int
        Requests of the whole instance that miss their SLO.
    evaluations : int
        Components simulated to find it.
    """

    state: State
    unserved: int
    evaluations: int

    def score(self, evaluator: Evaluator) -> float:
        """Attainment, fraction of all requests."""
        return (evaluator.instance.n_requests - self.unserved) / evaluator.instance.n_requests


class Room:
    """Which models still fit which groups, by (configuration, models held); remembers what it has worked out.

    Parameters
    ----------
    instance : Instance
        The problem.
    bucket : int
        Models that may be placed, as a bit mask.
    """

    def __init__(self, instance: Instance, bucket: int) -> None:
        self._instance = instance
        self._bucket = bucket
        self._free: dict[GroupState, int] = {}
        self._allowed = np.zeros(instance.n_models, dtype=bool)
        self._allowed[list(members(bucket))] = True

    def free(self, group: GroupState) -> int:
        """Models of the bucket that the group does not hold and has memory for, as a bit mask."""
        known = self._free.get(group)
        if known is None:
            config, held = group
            i = self._instance
            used = i.weight[config, list(members(held))].sum(axis=0)
            fits = self._allowed & (used + i.weight[config] <= i.memory_bytes).all(axis=1)
            known = sum(1 << int(m) for m in np.flatnonzero(fits)) & ~held
            self._free[group] = known
        return known


def by_demand(unserved: npt.NDArray[np.int64]) -> Sequence[int]:
    """Models in order of unserved requests, most first; the lower number among equals."""
    return np.argsort(-unserved, kind="stable").tolist()
