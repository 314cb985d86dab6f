"""The serving world (AlpaServe) in studies: a case is planned and then scored by simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import InfeasibleError, InputError
from ..guard import Guard
from ..outcome import Outcome
from ..world import Panel
from .case import ServingCase
from .check import check_case
from .data import ServingData
from .load import load_data
from .measures import METRICS, decision, measures
from .solve import Solved, solve

__all__ = ["WORLD", "ServingWorld", "Solved", "solve"]


class ServingWorld:
    """Multi-model serving of one-shot requests: the world of AlpaServe."""

    name = "serving"
    case = ServingCase
    metrics = METRICS

    def share(self, cases: Sequence[ServingCase], folder: Path) -> ServingData:
        """Load profiles, traces, plans and planners that the cases name."""
        return load_data(cases, folder)

    def digests(self, case: ServingCase, shared: ServingData) -> Mapping[str, str]:
        """SHA-256 of the profile set, trace, plan and planner file that a case reads."""
        return shared.digests_of(case)

    def evaluate(self, case: ServingCase, shared: ServingData) -> Outcome:
        """Plan and score.

        Raises
        ------
        InputError
            On a case that `share` would have refused, such as one that somebody asked for by hand.
        """
        wrong = list(check_case(case, shared))
        if wrong:
            raise InputError("; ".join(wrong))
        try:
            solved = solve(case, shared)
        except InfeasibleError as error:
            return Outcome("infeasible", error=" ".join(str(error).split()))
        metrics, notes = measures(solved)
        return Outcome(metrics=metrics, notes=notes, decision=decision(solved.plan))

    def panels(self, case: ServingCase, shared: ServingData) -> Sequence[Panel]:
        """Placement on the cluster, the worst burst, utilisation."""
        from .panels import panels

        return panels(solve(case, shared))

    def guard(self) -> Guard:
        """Serving as the gate sees it."""
        from .guard import ServingGuard

        return ServingGuard(self)


WORLD = ServingWorld()
