"""`EngineComparison`: the same traces served by the real engine and by the simulator, with a verdict on each."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....profiles.llm.measured import LayerMeasurement
from ....simulator.llm.forecast import COVERAGE
from .cell import JUDGED, SHOWN, WITHIN, Cell
from .words import lines_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EngineComparison"]


@dataclass(frozen=True, eq=False)
class EngineComparison:
    """Models × settings × loads, simulated and real.

    Parameters
    ----------
    cells : tuple of Cell
        One for each.
    measured : mapping
        Model -> the tables that the simulator used.
    configs : mapping
        Setting -> its options, as printed.
    """

    cells: tuple[Cell, ...]
    measured: Mapping[str, LayerMeasurement]
    configs: Mapping[str, str]

    @property
    def worst(self) -> float:
        """Largest difference of a judged figure of any cell, as a fraction."""
        return max(cell.worst for cell in self.cells)

    @property
    def mean(self) -> float:
        """Mean over cells and judged figures of the difference without its sign, as a fraction."""
        return float(np.mean([abs(cell.differences[name]) for cell in self.cells for name in JUDGED]))

    @property
    def median(self) -> float:
        """The same, its median: near saturation a queue's expectation rests on few long ones, and no run meets it."""
        return float(np.median([abs(cell.differences[name]) for cell in self.cells for name in JUDGED]))

    @property
    def inside(self) -> tuple[int, int]:
        """How many judged figures of all cells are where they were expected, and how many there are."""
        most = len(self.cells) * len(JUDGED)
        return most - sum(len(cell.outside) for cell in self.cells), most

    @property
    def by_chance(self) -> int:
        """Most figures that may lie outside by chance: an interval leaves out one run in twenty.

        The 95th percentile of a binomial law; figures of one cell hang together, which makes more of them likelier.
        Without intervals none may.
        """
        if any(cell.foretold is None for cell in self.cells):
            return 0
        from scipy import stats

        law: Any = stats.binom
        return int(law.ppf(COVERAGE, self.inside[1], 1 - COVERAGE))

    @property
    def within(self) -> bool:
        """Whether no more figures lie outside than may by chance, and all requests finished."""
        inside, most = self.inside
        return most - inside <= self.by_chance and self.worst < float("inf")

    def to_frame(self) -> pd.DataFrame:
        """A row per cell and figure: real, simulated, and the signed difference as a fraction."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for cell in self.cells:
            simulated, real, differences = cell.expected, cell.found, cell.differences
            for name in SHOWN:
                rows.append(
                    {
                        "model": cell.model, "setting": cell.setting, "level": cell.level, "rate": cell.rate,
                        "requests": len(cell.real), "figure": name, "real": real[name], "simulated": simulated[name],
                        "difference": differences[name], "judged": name in JUDGED, "share": cell.share,
                        "pace": cell.pace, "attempts": cell.attempts, "shift": cell.shift,
                    }
                    | _bounds(cell, name)
                )  # fmt: skip
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "cells": [
                {
                    "model": cell.model,
                    "setting": cell.setting,
                    "level": cell.level,
                    "rate": cell.rate,
                    "requests": len(cell.real),
                    "simulated": cell.expected,
                    "foretold": None if cell.foretold is None else cell.foretold.to_dict(),
                    "outside": list(cell.outside),
                    "varies": cell.varies,
                    "shift": cell.shift,
                    "real": cell.found,
                    "difference": cell.differences,
                    "worst": cell.worst,
                    "within": cell.within,
                    "share": cell.share,
                    "pace": cell.pace,
                    "attempts": cell.attempts,
                    "iterations": [asdict(one) for one in cell.iterations],
                    "in_service": cell.in_service,
                }
                for cell in self.cells
            ],
            "worst": self.worst,
            "mean": self.mean,
            "median": self.median,
            "inside": list(self.inside),
            "by_chance": self.by_chance,
            "within": self.within,
            "goal": WITHIN,
            "settings": dict(self.configs),
            "profiles": {
                name: {
                    "device": one.provenance.device,
                    "date": one.provenance.date,
                    "versions": dict(one.provenance.versions),
                    "notes": one.provenance.notes,
                    "taken": one.noise.taken,
                    "spread": one.noise.spread,
                    "drift": one.noise.drift,
                }
                for name, one in self.measured.items()
            },
        }

    def __str__(self) -> str:
        lines: list[str] = []
        for name, one in self.measured.items():
            noise = one.noise
            lines.append(
                f"{name}: measured on {one.provenance.device}, {one.provenance.date}; others took {noise.taken:.1%} of "
                f"the core, repeats spread {noise.spread:.1%}"
            )
        lines += [f"{setting}: {config}" for setting, config in self.configs.items()]
        for cell in self.cells:
            lines += ["", *lines_of(cell)]
        good, (inside, most) = sum(cell.within for cell in self.cells), self.inside
        where = f"within {WITHIN:.0%}" if any(c.foretold is None for c in self.cells) else "inside their intervals"
        lines += [
            "",
            f"{good} of {len(self.cells)} cells and {inside} of {most} figures {where}; off by "
            f"{self.median:.1%} in the median, {self.mean:.1%} in the mean, {self.worst:.1%} at worst"
            + (f"; up to {self.by_chance} may be outside by chance" if self.by_chance else ""),
        ]
        return "\n".join(lines)


def _bounds(cell: Cell, name: str) -> dict[str, float]:
    """Ends of a figure's interval; nothing without one."""
    if cell.foretold is None:
        return {}
    low, high = cell.foretold.interval(name)
    return {"low": low, "high": high}
