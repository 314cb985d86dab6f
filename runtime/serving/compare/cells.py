"""`Comparison`: plans by SLO scales, expected and real, as a table that says where the real runs lie and why."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ....reprs import Shown
from ....simulator.serving.forecast import Forecast
from ..measure.calibrate import Calibration
from ..measure.service import InService
from ..result import RunResult
from .attribution import Attribution, stage_ratios

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["OTHERS", "POINTS", "Cell", "Comparison", "Measured"]

OTHERS = 0.01
"""Share of the cores that others and the host may take before a cell says so. A guess: half of `POINTS`."""

POINTS = 0.02
"""The goal: expected and real attainment differ by at most two percentage points, as in the paper's Table 2."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured of a plan before and between its cells.

    Parameters
    ----------
    alone : Calibration
        By probes.
    service : InService
        While it served other requests: what the real controller predicted with, and how times varied around that.
    """

    alone: Calibration
    service: InService

    def explain(self) -> str:
        """Both in one line."""
        return f"{self.alone.explain()}; in service: {self.service.explain()}"


@dataclass(frozen=True, eq=False)
class Cell:
    """One plan at one SLO scale.

    Parameters
    ----------
    plan : str
        Name of the plan.
    slo_scale : float
        The scale.
    expected : Forecast
        The attainment that was expected.
    attribution : Attribution
        Expected and real attainment, and what their difference is made of.
    result : RunResult
        The real run.
    attempts : int
        How often it was run until nobody else took the cores.
    """

    plan: str
    slo_scale: float
    expected: Forecast
    attribution: Attribution
    result: RunResult
    attempts: int = 1

    @property
    def inside(self) -> bool:
        """Whether the real attainment is in the expected interval; without one, whether it is within `POINTS`."""
        if len(self.expected.attainment) == 1:
            return abs(self.attribution.difference) <= POINTS + 1e-12  # 0.98 - 0.96 is above 0.02 by an ulp
        return self.expected.holds(self.attribution.real)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """Plans × SLO scales, expected and real.

    Parameters
    ----------
    cells : tuple of Cell
        One for each plan and scale, plan by plan.
    measured : Mapping[str, Measured]
        Plan -> what was measured of it; empty if nothing was.
    curves : pandas.DataFrame
        Expected attainment over a fine grid of scales: ``plan``, ``slo_scale``, ``simulated``, ``low``, ``high``.
    """

    cells: tuple[Cell, ...]
    measured: Mapping[str, Measured]
    curves: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """A row per cell; attainments and parts of the difference in percent (points)."""
        import pandas as pd

        return pd.DataFrame([_row(cell) for cell in self.cells])

    @property
    def worst(self) -> float:
        """Largest difference of a cell, as a fraction."""
        return max(abs(cell.attribution.difference) for cell in self.cells)

    @property
    def mean_difference(self) -> float:
        """Mean absolute difference of the cells, as a fraction."""
        return float(np.mean([abs(cell.attribution.difference) for cell in self.cells]))

    @property
    def outside(self) -> tuple[Cell, ...]:
        """Cells whose real attainment is not in the expected interval."""
        return tuple(cell for cell in self.cells if not cell.inside)

    @property
    def allowed(self) -> int:
        """Cells that may lie outside: of 95 % intervals one in twenty does, and one is allowed in any case."""
        return max(1, round(0.05 * len(self.cells)))

    @property
    def within(self) -> bool:
        """Whether no more cells are outside than intervals of 95 % allow."""
        return len(self.outside) <= self.allowed

    @property
    def orders(self) -> tuple[int, int]:
        """Pairs of plans at a scale whose intervals are apart, and in how many of them the real order is that one."""
        apart = right = 0
        for scale in dict.fromkeys(cell.slo_scale for cell in self.cells):
            for a, b in combinations([cell for cell in self.cells if cell.slo_scale == scale], 2):
                better, worse = sorted((a, b), key=lambda cell: -cell.expected.mean)
                if better.expected.low > worse.expected.high:
                    apart += 1
                    right += better.attribution.real >= worse.attribution.real
        return apart, right

    @property
    def explained(self) -> float:
        """Share of the differences (sum of absolute values) that replaying measured stage times explains."""
        whole = sum(abs(cell.attribution.difference) for cell in self.cells)
        rest = sum(abs(cell.attribution.rest) for cell in self.cells)
        return max(0.0, 1.0 - rest / whole) if whole > 0 else 1.0

    def sentence(self) -> str:
        """How far off the simulation was, in one sentence."""
        inside = len(self.cells) - len(self.outside)
        apart, right = self.orders
        order = (
            f", and the better plan was the better one in {right} of {apart} cells that tell them apart"
            if apart
            else ""
        )
        return (
            f"The simulation was off by {100 * self.mean_difference:.1f} points on average and by "
            f"{100 * self.worst:.1f} at most; {inside} of {len(self.cells)} real runs lie inside their 95 % interval"
            f"{order}."
        )

    def __str__(self) -> str:
        frame: Any = self.to_frame()
        width = max(4, *(len(name) for name in frame["plan"]))
        lines = [
            f"{'plan':<{width}} | SLO scale | expected (95 % interval)  |  real  | difference | of which level, "
            "jitter, rest | stage time / expected p50 p90 p99 | cores: ours, others, host"
        ]
        for row in frame.to_dict("records"):
            mark = " " if row["inside"] else "!"
            lines.append(
                f"{row['plan']:<{width}} | {row['slo_scale']:>9g} | {row['simulated']:>6.1f}% ({row['low']:>5.1f} to "
                f"{row['high']:>5.1f}) {mark} | {row['real']:>5.1f}% | {row['difference']:>+10.1f} | "
                f"{row['level']:>+14.1f} {row['jitter']:>+6.1f} {row['rest']:>+6.1f} | {row['p50']:>21.3f} "
                f"{row['p90']:.3f} {row['p99']:.3f} | {row['ours']:.1%}, {row['others']:.1%}, {row['stolen']:.1%}"
            )
        lines += [f"{name}: {found.explain()}" for name, found in self.measured.items()]
        lines.append(
            f"mean difference {100 * self.mean_difference:.1f} points, largest {100 * self.worst:.1f}; "
            f"{len(self.cells) - len(self.outside)} of {len(self.cells)} inside; measured stage times explain "
            f"{self.explained:.0%} of the differences"
        )
        taken = [cell for cell in self.cells if foreign(cell.result) > OTHERS]
        if taken:
            lines.append(
                f"others took more than {OTHERS:.0%} of the cores in {len(taken)} of {len(self.cells)} cells: these "
                "say little about the model; run again on a quiet machine, or with more retries"
            )
        return "\n".join(lines)


def foreign(result: RunResult) -> float:
    """Share of the cores that neither this run nor nobody used; 0 where the system does not tell."""
    return float(np.nan_to_num(result.cores.others) + np.nan_to_num(result.cores.stolen))


def _row(cell: Cell) -> dict[str, Any]:
    parts, ratios = cell.attribution, stage_ratios(cell.result)
    weight = np.asarray(ratios["jobs"], dtype=np.float64)
    times = {
        name: float(np.average(np.asarray(ratios[name], dtype=np.float64), weights=weight))
        if weight.sum()
        else float("nan")
        for name in ("p50", "p90", "p99")
    }
    return {
        "plan": cell.plan,
        "slo_scale": cell.slo_scale,
        "simulated": 100 * parts.simulated,
        "low": 100 * cell.expected.low,
        "high": 100 * cell.expected.high,
        "inside": cell.inside,
        "real": 100 * parts.real,
        "difference": 100 * parts.difference,
        "level": 100 * parts.level,
        "jitter": 100 * parts.jitter,
        "rest": 100 * parts.rest,
        **times,
        "ours": cell.result.cores.ours,
        "others": cell.result.cores.others,
        "stolen": cell.result.cores.stolen,
        "attempts": cell.attempts,
    }
