"""`Cell`: one trace served by the real engine and by the simulator, with a verdict."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....profiles.llm.cost.in_service import kind_of
from ....profiles.llm.iteration import Iteration, IterationCost
from ....simulator.llm.forecast import Forecast, figures
from ....simulator.llm.result.columns import LLMResult

__all__ = ["JUDGED", "SHOWN", "WITHIN", "Cell", "KindOfIteration", "by_kind", "figures_of"]

WITHIN = 0.05
"""The goal: simulated and real differ by at most this."""

JUDGED = ("throughput", "ttft_p50", "ttft_p90", "tpot_p50", "tpot_p90")
"""Figures that the verdict looks at."""

SHOWN = (*JUDGED, "e2e_p50", "e2e_p90", "mean_batch", "preemptions")


def figures_of(result: LLMResult, rows: npt.NDArray[np.bool_] | None = None) -> dict[str, float]:
    """Figures of a result; latencies are those of some rows alone, if given."""
    found = figures(result)
    if rows is None:
        return found
    for metric in ("ttft", "tpot", "e2e"):
        values = result.latencies[metric][rows & result.finished]
        values = values[~np.isnan(values)]
        for percentile in (50, 90):
            found[f"{metric}_p{percentile}"] = float(np.percentile(values, percentile)) if len(values) else float("nan")
    return found


@dataclass(frozen=True, slots=True)
class KindOfIteration:
    """Undisturbed iterations of one kind.

    Parameters
    ----------
    kind : str
        ``decodes``, ``prompts``, or ``both``.
    count : int
        How many.
    low, middle, high : float
        10th percentile, median and 90th percentile of cost over real time.
    """

    kind: str
    count: int
    low: float
    middle: float
    high: float


def by_kind(cycles: Sequence[tuple[Iteration, float]], cost: IterationCost) -> tuple[KindOfIteration, ...]:
    """Iterations and their real seconds against their cost."""
    found: dict[str, list[float]] = {}
    for iteration, seconds in cycles:
        found.setdefault(kind_of(iteration), []).append(cost.seconds(iteration) / seconds)
    return tuple(
        KindOfIteration(kind, len(ratios), *(float(x) for x in np.percentile(ratios, [10, 50, 90])))
        for kind, ratios in sorted(found.items())
    )


@dataclass(frozen=True, eq=False)
class Cell:
    """One model, scheduler and load.

    Parameters
    ----------
    model, setting, level : str
        Which; a setting is a policy with its options.
    rate : float
        Requests per second.
    simulated, real : LLMResult
        Both worlds' results.
    share : float
        Share of its steps' time in which the engine had its core, 0 … 1; 1 on a GPU.
    pace : float
        Time of forward passes right before, over that of the same passes in the tables; where some stretches tell what
        iterations take: of passes right after, over those right before all of it. NaN if not looked at.
    attempts : int
        How often it was run until it was undisturbed.
    iterations : tuple of KindOfIteration
        Single iterations that had the core throughout, by what they computed, against their cost: where a difference
        comes from.
    in_service : str
        Factors of `InService` that the simulation used, in words; empty where the tables alone count.
    foretold : Forecast, optional
        Figures of the simulation under many draws of the times of steps, as they varied in the other stretches; None
        where the tables alone count.
    varies : str
        That variation in words.
    shift : float
        Time of the steps in the judged stretches over what the draws take in the mean: by how much the device was
        slower, or such steps costlier, than in the others. NaN if not looked at.
    at_level : Forecast, optional
        The same figures once more, at that level: what still lies outside is not a matter of level.
    rows : ndarray of bool, optional
        Requests whose latencies are looked at: those of the judged stretches; all without it.
    """

    model: str
    setting: str
    level: str
    rate: float
    simulated: LLMResult
    real: LLMResult
    share: float
    pace: float
    attempts: int
    iterations: tuple[KindOfIteration, ...] = ()
    in_service: str = ""
    foretold: Forecast | None = None
    varies: str = ""
    shift: float = float("nan")
    at_level: Forecast | None = None
    rows: npt.NDArray[np.bool_] | None = None

    @property
    def found(self) -> dict[str, float]:
        """Figure -> what the real run gave."""
        return figures_of(self.real, self.rows)

    @property
    def expected(self) -> dict[str, float]:
        """Figure -> what is expected: the mean over draws, or what the one simulation gave."""
        if self.foretold is None:
            return figures(self.simulated)
        return {name: self.foretold.expected(name) for name in SHOWN}

    @property
    def outside(self) -> tuple[str, ...]:
        """Judged figures that lie outside their interval, or without one further off than `WITHIN`."""
        real = self.found
        if self.foretold is None:
            return tuple(name for name in JUDGED if not abs(self.differences[name]) <= WITHIN)
        return tuple(name for name in JUDGED if not self.foretold.inside(name, real[name]))

    @property
    def differences(self) -> dict[str, float]:
        """Figure -> expected over real, minus 1; NaN where the real one is 0."""
        simulated, real = self.expected, self.found
        return {name: simulated[name] / real[name] - 1 if real[name] else float("nan") for name in SHOWN}

    @property
    def worst(self) -> float:
        """Largest difference of a judged figure, as a fraction; infinite if requests did not finish or one is NaN."""
        if self.real.unfinished.any() or self.simulated.unfinished.any():
            return float("inf")
        found = [abs(self.differences[name]) for name in JUDGED]
        return max(found) if all(value == value for value in found) else float("inf")

    @property
    def within(self) -> bool:
        """Whether all requests finished and all judged figures lie in their intervals (without: within `WITHIN`)."""
        return self.worst < float("inf") and not self.outside
