"""`compare`: run plans for real and simulate the same, as AlpaServe's Table 2 does, on this machine."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import InputError
from ....profiles.profile import ModelProfile
from ....profiles.profile_set import ProfileSet
from ....profiles.spread import NO_VARIATION, Variation
from ....simulator.placement import Placement
from ....simulator.serving.forecast import Forecast
from ....simulator.serving.plan.file import Plan
from ....simulator.serving.simulate import simulate
from ....traces.trace import Trace
from ..measure.calibrate import Calibration, calibrate
from ..measure.rehearse import rehearse
from ..measure.service import InService, in_service
from ..options import CompareOptions
from ..result import RunResult
from ..session import Session
from .attribution import attribute, own_level
from .cells import OTHERS, Cell, Comparison, Measured, foreign
from .expectation import at_level, expect

__all__ = ["SLO_SCALES", "compare"]

SLO_SCALES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 10.0)
"""The scales of the paper's Table 2."""

CURVE_POINTS, CURVE_DRAWS = 40, 40
"""Points of the curves, and draws at each: enough for a picture."""

LEVEL_DRAWS = 50
"""Draws of the mean that `attribute` blames the level by."""


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
    if not plans or not slo_scales or any(not scale > 0 for scale in slo_scales):
        raise InputError(
            f"compare: expected at least one plan and positive SLO scales (got {len(plans)}, {list(slo_scales)})"
        )
    asked = _Asked(
        trace, profiles, tuple(slo_scales), dispatch, admission, options or CompareOptions(), progress or _silent
    )
    found = [_compared(name, plan, device, asked) for name, plan in plans.items()]
    import pandas as pd

    return Comparison(
        tuple(cell for one in found for cell in one.cells),
        {name: one.measured for name, one in zip(plans, found, strict=True) if one.measured is not None},
        pd.DataFrame([row for one in found for row in one.curve]),
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is compared, and how."""

    trace: Trace
    profiles: Mapping[str, ModelProfile]
    scales: tuple[float, ...]
    dispatch: str
    admission: bool
    options: CompareOptions
    tell: Callable[[str], None]

    def serving(self, known: Mapping[str, ModelProfile]) -> dict[str, Any]:
        """How requests are served, in both worlds."""
        overhead = float(getattr(known, "overhead_s", 0.0))
        return {"dispatch": self.dispatch, "admission": self.admission, "overhead": overhead}

    @property
    def batching(self) -> int | None:
        """Largest batch, if there are any."""
        return self.options.max_batch if self.options.max_batch > 1 else None


@dataclass(frozen=True, eq=False)
class _Found:
    """What was found of one plan."""

    cells: tuple[Cell, ...]
    measured: Measured | None
    curve: tuple[dict[str, object], ...]


def _compared(name: str, plan: Plan | Placement, device: str, asked: _Asked) -> _Found:
    asked.tell(f"{name}: starting workers")
    with Session(plan, asked.trace.models, asked.profiles, device=device, batching=asked.batching) as session:
        if not asked.options.calibrated:
            runs = {scale: _served(session, name, scale, asked.profiles, asked) for scale in asked.scales}
            return _judged(name, session, runs, asked.profiles, NO_VARIATION, None, asked)
        asked.tell(f"{name}: calibrating")
        alone = calibrate(session, load=_load(session, asked))
        middle = sorted(asked.scales)[len(asked.scales) // 2]
        rounds = [_rehearsed(session, name, middle, alone.profiles, 0, asked)]
        known = in_service(session, rounds, alone.profiles).profiles if _ran(rounds) else alone.profiles
        rounds = list[RunResult]()
        runs = dict[float, tuple[RunResult, int]]()
        # Rounds lie between the cells, so that they meet the machine as the cells do; none is of a cell's own requests.
        for number, scale in enumerate(asked.scales, 1):
            rounds.append(_rehearsed(session, name, scale, known, number, asked))
            runs[scale] = _served(session, name, scale, known, asked)
    service = _service(session, rounds, known, alone)
    variation = service.profiles.variation
    return _judged(name, session, runs, known, variation, Measured(alone, service), asked)


def _service(session: Session, rounds: list[RunResult], known: ProfileSet, alone: Calibration) -> InService:
    """How times varied around what the controller predicted with; not at all if no request was ever served."""
    if _ran(rounds):
        return in_service(session, rounds, known, refit=False)
    return InService(alone.profiles, np.zeros(0), 0.0, 0)


def _ran(rounds: Sequence[RunResult]) -> bool:
    return any(len(result.heads()) for result in rounds)


def _rehearsed(session: Session, name: str, scale: float, known: ProfileSet, number: int, asked: _Asked) -> RunResult:
    asked.tell(f"{name}: serving other requests at SLO scale {scale:g}, to learn what times are in service")
    traffic = asked.trace.with_slo_scale(scale, asked.profiles)
    seed = asked.options.seed + number
    return rehearse(session, traffic, known, seed, seconds=asked.options.rehearsal_s, **asked.serving(known))


def _served(
    session: Session, name: str, scale: float, known: Mapping[str, ModelProfile], asked: _Asked
) -> tuple[RunResult, int]:
    """The least disturbed of the attempts at a cell, and how many there were."""
    traffic = asked.trace.with_slo_scale(scale, asked.profiles)
    attempts: list[RunResult] = []
    while not attempts or (len(attempts) <= asked.options.retries and foreign(attempts[-1]) > OTHERS):
        again = f", attempt {len(attempts) + 1}" if attempts else ""
        asked.tell(f"{name}: serving {len(traffic)} requests at SLO scale {scale:g}{again}")
        attempts.append(session.run(traffic, profiles=known, **asked.serving(known)))
        attempts[-1].raise_failures()
    result = min(attempts, key=foreign)
    asked.tell(f"{name}: SLO scale {scale:g}: real {result.attainment:.1%}")
    return result, len(attempts)


def _judged(
    name: str, session: Session, runs: Mapping[float, tuple[RunResult, int]], known: Mapping[str, ModelProfile],
    variation: Variation, measured: Measured | None, asked: _Asked,
) -> _Found:  # fmt: skip
    """Expectations of what ran, and curves over a fine grid of scales."""
    asked.tell(f"{name}: drawing what times could have been, {asked.options.draws} times for each cell")
    serving = asked.serving(known) | {"batching": asked.batching}

    def expected(scale: float, draws: int, varies: Variation = variation) -> Forecast:
        traffic = asked.trace.with_slo_scale(scale, asked.profiles)
        return expect(session.placement, traffic, known, varies, draws=draws, seed=asked.options.seed, **serving)

    cells: list[Cell] = []
    for scale, (result, attempts) in runs.items():
        here = expected(scale, asked.options.draws)
        factor = own_level(result, known) / variation.stages.mean
        moved = expected(scale, LEVEL_DRAWS, at_level(variation, factor)).mean
        parts = attribute(result, here.mean, moved, admission=asked.admission, max_batch=asked.options.max_batch)
        cells.append(Cell(name, float(scale), here, parts, result, attempts))
    # Simulations cost little beside runs: enough points for a smooth curve, geometric since scales are factors.
    ends = min(asked.scales), max(asked.scales)
    grid = np.geomspace(*ends, CURVE_POINTS).tolist() if len(asked.scales) > 1 else list(asked.scales)
    curve: list[dict[str, object]] = []
    for scale in grid:
        there = expected(float(scale), CURVE_DRAWS)
        curve.append(
            {"plan": name, "slo_scale": float(scale), "simulated": there.mean, "low": there.low, "high": there.high}
        )
    return _Found(tuple(cells), measured, tuple(curve))


def _silent(line: str) -> None:
    """No progress wanted."""


def _load(session: Session, asked: _Asked) -> float:
    """How busy the devices will be, by simulation without SLOs, 0 … 1."""
    trace = asked.trace.with_slo(np.inf)
    busy = simulate(session.placement, trace, asked.profiles, dispatch=asked.dispatch).utilization()
    sizes = [group.n_devices for group in session.placement.groups]
    return float(np.clip(np.average(busy, weights=sizes), 0.0, 1.0))
