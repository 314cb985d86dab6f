"""`compare`: run plans for real and simulate the same, as AlpaServe's Table 2 does, on this machine."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import InputError
from ....profiles.profile import ModelProfile
from ....reprs import Shown
from ....simulator.placement import Placement
from ....simulator.serving.plan.file import Plan
from ....simulator.serving.simulate import simulate
from ....traces.trace import Trace
from ..measure.calibrate import Calibration, calibrate
from ..options import CompareOptions
from ..result import RunResult
from ..session import Session
from .attribution import Attribution, attribute, stage_ratios

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SLO_SCALES", "Cell", "Comparison", "compare"]

SLO_SCALES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 10.0)
"""The scales of the paper's Table 2."""

UNDISTURBED = 0.99
"""Share of the stages' time in which the workers' threads must have had their cores for a run to count. A guess: one
percent for others, where `POINTS` allows two."""

POINTS = 0.02
"""The goal: simulated and real attainment differ by at most two percentage points, as in the paper's Table 2."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One plan at one SLO scale.

    Parameters
    ----------
    plan : str
        Name of the plan.
    slo_scale : float
        The scale.
    attribution : Attribution
        Simulated and real attainment, and what their difference is made of.
    result : RunResult
        The real run.
    attempts : int
        How often it was run until it was undisturbed.
    """

    plan: str
    slo_scale: float
    attribution: Attribution
    result: RunResult
    attempts: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """Plans × SLO scales, simulated and real.

    Parameters
    ----------
    cells : tuple of Cell
        One for each plan and scale, plan by plan.
    calibrations : Mapping[str, Calibration]
        Plan -> what was measured of it before; empty if nothing was.
    curves : pandas.DataFrame
        Simulated attainment over a fine grid of scales: ``plan``, ``slo_scale``, ``simulated``.
    """

    cells: tuple[Cell, ...]
    calibrations: Mapping[str, Calibration]
    curves: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """A row per cell; attainments and parts of the difference in percent (points)."""
        import pandas as pd

        rows: list[dict[str, str | float]] = []
        for cell in self.cells:
            parts = cell.attribution
            ratios = stage_ratios(cell.result)
            weight = np.asarray(ratios["jobs"], dtype=np.float64)
            jitter = {
                name: float(np.average(np.asarray(ratios[name], dtype=np.float64), weights=weight))
                if weight.sum()
                else float("nan")
                for name in ("p50", "p90", "p99")
            }
            rows.append(
                {
                    "plan": cell.plan,
                    "slo_scale": cell.slo_scale,
                    "simulated": 100 * parts.simulated,
                    "real": 100 * parts.real,
                    "difference": 100 * parts.difference,
                    "profile": 100 * parts.profile,
                    "jitter": 100 * parts.jitter,
                    "rest": 100 * parts.rest,
                    **jitter,
                    "cpu": _undisturbed(cell.result),
                    "attempts": cell.attempts,
                }
            )
        return pd.DataFrame(rows)

    @property
    def worst(self) -> float:
        """Largest difference of a cell, as a fraction."""
        return max(abs(cell.attribution.difference) for cell in self.cells)

    @property
    def within(self) -> bool:
        """Whether every cell is within two percentage points."""
        return self.worst <= POINTS + 1e-12  # 0.98 - 0.96 is above 0.02 by an ulp

    @property
    def explained(self) -> float:
        """Share of the differences (sum of absolute values) that replaying measured stage times explains."""
        whole = sum(abs(cell.attribution.difference) for cell in self.cells)
        rest = sum(abs(cell.attribution.rest) for cell in self.cells)
        return max(0.0, 1.0 - rest / whole) if whole > 0 else 1.0

    def __str__(self) -> str:
        frame: Any = self.to_frame()
        width = max(4, *(len(name) for name in frame["plan"]))
        lines = [
            f"{'plan':<{width}} | SLO scale | simulated |  real  | difference | of which profile, jitter, rest | "
            "stage time / profile p50 p90 p99 | cores ours"
        ]
        for row in frame.to_dict("records"):
            lines.append(
                f"{row['plan']:<{width}} | {row['slo_scale']:>9g} | {row['simulated']:>8.1f}% | {row['real']:>5.1f}% | "
                f"{row['difference']:>+10.1f} | {row['profile']:>+16.1f} {row['jitter']:>+6.1f} {row['rest']:>+5.1f} | "
                f"{row['p50']:>19.3f} {row['p90']:.3f} {row['p99']:.3f} | {row['cpu']:.1%}"
            )
        lines += [f"{name}: {found.explain()}" for name, found in self.calibrations.items()]
        lines.append(
            f"largest difference {100 * self.worst:.1f} points ({'within' if self.within else 'beyond'} 2); "
            f"measured stage times explain {self.explained:.0%} of the differences"
        )
        disturbed = [cell for cell in self.cells if _undisturbed(cell.result) < UNDISTURBED]
        if disturbed:
            lines.append(
                f"others took the workers' cores in {len(disturbed)} of {len(self.cells)} cells ('cores ours'): these "
                "say little about the model; run again on a quiet machine, or with more retries"
            )
        return "\n".join(lines)


def compare(
    plans: Mapping[str, Plan | Placement],
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    slo_scales: Sequence[float] = SLO_SCALES,
    *,
    device: str = "auto",
    dispatch: str = "shortest_queue",
    admission: bool = True,
    options: CompareOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Run plans for real at several SLO scales, and simulate the same.

    Parameters
    ----------
    plans : Mapping[str, Plan or Placement]
        Name -> what to run; each is started once.
    trace : Trace
        The requests; their SLOs are replaced. Each cell takes as long as the trace.
    profiles : Mapping[str, ModelProfile]
        Profiles of the models; the SLO of scale 1 is their single-device latency.
    slo_scales : sequence of float
        The scales.
    device : {"auto", "cpu", "cuda"}
        As in `meshwright.runtime.serving.run`.
    dispatch, admission
        How both worlds serve.
    options : CompareOptions, optional
        Batches, whether placements are measured first, and how often disturbed cells are run again.
    progress : callable, optional
        Called with a line that says what is being done.

    Raises
    ------
    InputError
        On no plan, no scale, or a scale that is not positive.
    RunError
        If a group is lost.
    """
    import pandas as pd

    if not plans or not slo_scales or any(not scale > 0 for scale in slo_scales):
        raise InputError(
            f"compare: expected at least one plan and positive SLO scales (got {len(plans)}, {list(slo_scales)})"
        )
    tell, asked = progress or _silent, options or CompareOptions()
    cells: list[Cell] = []
    found: dict[str, Calibration] = {}
    curves: list[dict[str, object]] = []
    # Simulations cost little beside runs: enough points for a smooth curve, geometric since scales are factors.
    grid = np.geomspace(min(slo_scales), max(slo_scales), 40) if len(slo_scales) > 1 else np.array(slo_scales)
    batching = asked.max_batch if asked.max_batch > 1 else None
    for name, plan in plans.items():
        tell(f"{name}: starting workers")
        with Session(plan, trace.models, profiles, device=device, batching=batching) as session:
            known = profiles
            if asked.calibrated:
                tell(f"{name}: calibrating")
                found[name] = calibrate(session, load=_load(session, trace, profiles, dispatch))
                known = found[name].profiles
            overhead = float(getattr(known, "overhead_s", 0.0))
            serving: dict[str, Any] = {"dispatch": dispatch, "admission": admission, "overhead": overhead}
            for scale in slo_scales:
                traffic = trace.with_slo_scale(scale, profiles)
                attempts: list[RunResult] = []
                while not attempts or (len(attempts) <= asked.retries and _undisturbed(attempts[-1]) < UNDISTURBED):
                    again = f", attempt {len(attempts) + 1}" if attempts else ""
                    tell(f"{name}: serving {len(trace)} requests at SLO scale {scale:g}{again}")
                    attempts.append(session.run(traffic, profiles=known, **serving))
                    attempts[-1].raise_failures()
                result = max(attempts, key=_undisturbed)
                parts = attribute(result, known, admission=admission, max_batch=asked.max_batch)
                cells.append(Cell(name, float(scale), parts, result, len(attempts)))
                tell(
                    f"{name}: SLO scale {scale:g}: simulated {parts.simulated:.1%}, real {parts.real:.1%}, cores ours "
                    f"{_undisturbed(result):.1%}"
                )
            for scale in grid:
                traffic = trace.with_slo_scale(float(scale), profiles)
                simulated = simulate(session.placement, traffic, known, batching=batching, **serving)
                curves.append({"plan": name, "slo_scale": float(scale), "simulated": simulated.attainment})
    return Comparison(tuple(cells), found, pd.DataFrame(curves))


def _silent(line: str) -> None:
    """No progress wanted."""


def _undisturbed(result: RunResult) -> float:
    """Share of the stages' time in which their threads had their cores; 1 on a GPU, or if nothing ran."""
    took = np.nansum(result.stage_s)
    return float(np.nansum(result.cpu_s) / took) if took > 0 else 1.0


def _load(session: Session, trace: Trace, profiles: Mapping[str, ModelProfile], dispatch: str) -> float:
    """How busy the devices will be, by simulation without SLOs, 0 … 1."""
    busy = simulate(session.placement, trace.with_slo(np.inf), profiles, dispatch=dispatch).utilization()
    sizes = [group.n_devices for group in session.placement.groups]
    return float(np.clip(np.average(busy, weights=sizes), 0.0, 1.0))
