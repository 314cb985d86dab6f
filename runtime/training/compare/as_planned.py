"""``--as-planned FILE …``: plans as they stand, with the times that they were made with, held against runs of them.

Of plans that were made with a profile of measured operators (``meshwright plan training --profile``) this says how far
sums of operators and collectives are from whole stages at work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.simulate import simulate_training
from ..measure.cores import UNDISTURBED, counted, own_shares
from ..result import TrainingRun
from ..run import run_training
from ..session import TrainingSession
from .table import WITHIN

__all__ = ["AsPlanned", "PlannedRow", "compare_as_planned"]


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One plan.

    Parameters
    ----------
    name : str
        Of the plan.
    planned_s : float
        Seconds of an iteration, simulated with the times of the plan.
    measured_s : float
        Mean seconds of the iterations that count.
    own : float
        Share of the computing time in which ranks had their cores.
    source : str
        What the plan's times rest on.
    """

    name: str
    planned_s: float
    measured_s: float
    own: float
    source: str

    @property
    def difference(self) -> float:
        """(planned − measured) / measured."""
        return self.planned_s / self.measured_s - 1.0


@dataclass(frozen=True)
class AsPlanned:
    """All plans.

    Parameters
    ----------
    rows : tuple of PlannedRow
        In the order given.
    """

    rows: tuple[PlannedRow, ...]

    @property
    def right(self) -> bool:
        """Whether every plan is within the bar."""
        return all(abs(row.difference) <= WITHIN for row in self.rows)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for row in self.rows:
            yield (
                f"{row.name}: planned {row.planned_s * 1e3:.4g} ms, ran {row.measured_s * 1e3:.4g} ms an iteration, "
                f"{row.difference:+.1%}; cores ours {row.own:.1%}; {row.source}"
            )
        ordered = sorted(self.rows, key=lambda row: row.planned_s) == sorted(self.rows, key=lambda row: row.measured_s)
        worst = max(abs(row.difference) for row in self.rows)
        yield f"largest difference {worst:.1%}, order {'as' if ordered else 'not as'} measured"
        if min(row.own for row in self.rows) < UNDISTURBED:
            yield "other processes had the cores for a part of the time: run again on a quiet machine"


def compare_as_planned(
    plans: Mapping[str, TrainingPlan], graphs: Mapping[str, Graph], *, rounds: int = 6, iterations: int = 4,
    seed: int = 0, progress: Callable[[str], None] | None = None, session: TrainingSession | None = None,
) -> AsPlanned:  # fmt: skip
    """Run plans in turn, and hold the runs against the simulations of the plans as they stand.

    Parameters
    ----------
    plans : Mapping[str, TrainingPlan]
        Name -> plan.
    graphs : Mapping[str, Graph]
        Name -> what it trains.
    rounds, iterations, seed, progress, session
        As in `compare_training`.

    Raises
    ------
    InputError
        On no plan, or numbers too small.
    RunError
        If a rank fails.
    """
    if not plans or rounds < 1 or iterations < 2:
        raise InputError(
            f"compare: expected plans, rounds >= 1 and iterations >= 2 (got {len(plans)}, {rounds}, {iterations})"
        )
    runs: dict[str, list[TrainingRun]] = {name: [] for name in plans}
    most = max(sum(m.hosts * m.devices for m in plan.meshes) for plan in plans.values())
    with nullcontext(session) if session is not None else TrainingSession(most) as workers:
        for turn in range(rounds):
            for name, plan in plans.items():
                if progress is not None:
                    progress(f"round {turn + 1} of {rounds}: {name}")
                runs[name].append(run_training(plan, graphs[name], seed=seed, iterations=iterations, session=workers))
    return AsPlanned(tuple(_row(name, plan, runs[name]) for name, plan in plans.items()))


def _row(name: str, plan: TrainingPlan, runs: list[TrainingRun]) -> PlannedRow:
    kept, shares = counted(runs), [own_shares(run) for run in runs]
    return PlannedRow(
        name, simulate_training(plan).seconds, float(np.mean([runs[r].seconds[i] for r, i in kept])),
        float(np.mean([shares[r][i] for r, i in kept])), plan.cost_source,
    )  # fmt: skip
