"""The world of training: one model on a cluster, planned by any planner of training, one iteration simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...errors import InfeasibleError
from ...simulator.training import TrainingPlan, TrainingResult, simulate_training
from ..guard import Guard
from ..outcome import Outcome
from ..world import Panel
from . import solve
from .case import TrainingCase
from .data import TrainingData, load_data
from .measures import METRICS, decision, measures

__all__ = ["METRICS", "WORLD", "TrainingWorld"]


class TrainingWorld:
    """One model trained on a cluster."""

    name = "training"
    case = TrainingCase
    metrics = METRICS

    def share(self, cases: Sequence[TrainingCase], folder: Path) -> TrainingData:
        """Load graphs, shapes, tables and profiles that the cases name; trace modules."""
        return load_data(cases, folder)

    def digests(self, case: TrainingCase, shared: TrainingData) -> Mapping[str, str]:
        """SHA-256 of the files that a case reads."""
        return shared.digests_of(case)

    def plan(
        self, case: TrainingCase, shared: TrainingData, progress: Callable[[str], None] | None = None
    ) -> TrainingPlan:
        """The planner's plan.

        Raises
        ------
        InfeasibleError
            If nothing fits; says the smallest change that helps where the planner knows it.
        LimitError
            If a limit ended the search.
        """
        return solve.plan(case, shared, progress)

    def simulate(self, plan: TrainingPlan, case: TrainingCase, shared: TrainingData) -> TrainingResult:
        """One iteration of a plan, as it stands: on the cluster that it was made for."""
        return simulate_training(plan)

    def evaluate(self, case: TrainingCase, shared: TrainingData) -> Outcome:
        """Plan and simulate."""
        try:
            solved = solve.solve(case, shared)
        except InfeasibleError as error:
            return Outcome("infeasible", error=" ".join(str(error).split()))
        metrics, notes = measures(solved)
        return Outcome(metrics=metrics, notes=notes, decision=decision(solved.plan))

    def panels(self, case: TrainingCase, shared: TrainingData) -> Sequence[Panel]:
        """The plan, its timeline and its memory."""
        from .panels import panels

        return panels(solve.solve(case, shared))

    def guard(self) -> Guard:
        """The world as the gate sees it."""
        from .guard import TrainingGuard

        return TrainingGuard(self)


WORLD = TrainingWorld()
