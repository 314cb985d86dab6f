"""`EngineComparison`: the same traces served by the real engine and by the simulator, with a verdict on each."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....profiles.llm.cost.in_service import kind_of
from ....profiles.llm.iteration import Iteration, IterationCost
from ....profiles.llm.measured import LayerMeasurement
from ....simulator.llm.result.columns import LLMResult

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["JUDGED", "SHOWN", "WITHIN", "Cell", "EngineComparison", "KindOfIteration", "by_kind", "figures"]

WITHIN = 0.05
"""The goal: simulated and real differ by at most this."""

JUDGED = ("throughput", "ttft_p50", "ttft_p90", "tpot_p50", "tpot_p90")
"""Figures that the verdict looks at."""

SHOWN = (*JUDGED, "e2e_p50", "e2e_p90", "mean_batch", "preemptions")


def figures(result: LLMResult) -> dict[str, float]:
    """The figures that are compared: tokens per second, seconds, requests, counts."""
    found = {"throughput": result.throughput}
    for metric in ("ttft", "tpot", "e2e"):
        for percentile in (50, 90):
            found[f"{metric}_p{percentile}"] = getattr(result, metric)(percentile)
    found["mean_batch"] = result.mean_batch
    found["preemptions"] = float(result.preemptions.sum())
    found["unfinished"] = float(result.unfinished.sum())
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
        Time of forward passes right before, over that of the same passes in the tables; where the engine served other
        requests first: of passes right after, over those right before all of it. NaN if not looked at.
    attempts : int
        How often it was run until it was undisturbed.
    iterations : tuple of KindOfIteration
        Single iterations that had the core throughout, by what they computed, against their cost: where a difference
        comes from.
    in_service : str
        Factors of `InService` that the simulation used, in words; empty where the tables alone count.
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

    @property
    def differences(self) -> dict[str, float]:
        """Figure -> simulated over real, minus 1; NaN where the real one is 0."""
        simulated, real = figures(self.simulated), figures(self.real)
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
        """Whether all judged figures are."""
        return self.worst <= WITHIN


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
    def within(self) -> bool:
        """Whether every cell is."""
        return all(cell.within for cell in self.cells)

    def to_frame(self) -> pd.DataFrame:
        """A row per cell and figure: real, simulated, and the signed difference as a fraction."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for cell in self.cells:
            simulated, real, differences = figures(cell.simulated), figures(cell.real), cell.differences
            for name in SHOWN:
                rows.append(
                    {
                        "model": cell.model, "setting": cell.setting, "level": cell.level, "rate": cell.rate,
                        "requests": len(cell.real), "figure": name, "real": real[name], "simulated": simulated[name],
                        "difference": differences[name], "judged": name in JUDGED, "share": cell.share,
                        "pace": cell.pace, "attempts": cell.attempts,
                    }
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
                    "simulated": figures(cell.simulated),
                    "real": figures(cell.real),
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
            lines += ["", *_block(cell)]
        good = sum(cell.within for cell in self.cells)
        lines += ["", f"{good} of {len(self.cells)} cells within {WITHIN:.0%}; worst {self.worst:.1%}"]
        return "\n".join(lines)


def _block(cell: Cell) -> list[str]:
    """A cell as lines."""
    simulated, real, differences = figures(cell.simulated), figures(cell.real), cell.differences
    than = "what they took before" if cell.in_service else "the tables' time"
    pace = "" if cell.pace != cell.pace else f", passes at {cell.pace:.1%} of {than}"
    lines = [
        f"{cell.model}, {cell.setting}, {cell.level}: {len(cell.real)} requests at {cell.rate:.3g}/s; core ours "
        f"{cell.share:.1%}{pace}{f', attempt {cell.attempts}' if cell.attempts > 1 else ''}",
        f"{'':<14}{'real':>10}{'simulated':>11}{'difference':>12}",
    ]
    for name in SHOWN:
        scale, unit = (1e3, "ms") if name[:4] in ("ttft", "tpot", "e2e_") else (1.0, "")
        mark = "" if name not in JUDGED else "  ok" if abs(differences[name]) <= WITHIN else "  off"
        gap = "" if differences[name] != differences[name] else f"{differences[name]:+.1%}"
        lines.append(f"{name:<14}{scale * real[name]:>10.2f}{scale * simulated[name]:>11.2f} {unit:<2}{gap:>9}{mark}")
    if cell.in_service:
        lines.append(f"in service, on other requests, over the tables: {cell.in_service}")
    if cell.iterations:
        told = "; ".join(f"{k.kind} {k.middle:.3f} ({k.low:.2f} to {k.high:.2f}, {k.count})" for k in cell.iterations)
        lines.append(f"cost of an undisturbed iteration over its time: {told}")
    return lines
