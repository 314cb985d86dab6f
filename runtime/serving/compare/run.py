"""`compare`: run plans for real and simulate the same, as AlpaServe's Table 2 does, on this machine."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

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
from ..measure.levels import Levels
from ..measure.rehearse import rehearse
from ..measure.service import InService, in_service
from ..measure.visits import visits
from ..options import CompareOptions
from ..result import RunResult
from ..session import Session
from .attribution import attribute, own_level
from .cells import OTHERS, Cell, Comparison, Measured, foreign
from .expectation import at_level, expect
from .stretches import STRETCH_S, judged

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
        The requests; their SLOs are replaced. Each cell takes as long as the trace, and is judged by the requests of
        every other half second: the others tell what times are in service.
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
        On no plan, no scale, a scale that is not positive, or a trace of less than two stretches.
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
    _ = asked.judged  # says what is wrong with the trace before anything starts
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

    @cached_property
    def judged(self) -> npt.NDArray[np.bool_] | None:
        """Requests that cells are judged by; all where no others tell what times are."""
        return judged(self.trace) if self.options.calibrated else None

    @property
    def batching(self) -> int | None:
        """Largest batch, if there are any."""
        return self.options.max_batch if self.options.max_batch > 1 else None


@dataclass(frozen=True, eq=False)
class _Served:
    """The least disturbed of the attempts at a round or a cell, when it took place, and how many there were."""

    result: RunResult
    when_s: float
    attempts: int


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
            return _judged(name, session, runs, asked.profiles, None, None, asked)
        asked.tell(f"{name}: calibrating")
        alone = calibrate(session, load=_load(session, asked))
        middle = sorted(asked.scales)[len(asked.scales) // 2]
        first = [_rehearsed(session, name, middle, alone.profiles, asked).result]
        known = in_service(session, first, alone.profiles).profiles if _ran(first) else alone.profiles
        runs = dict[float, _Served]()
        for scale in asked.scales:
            runs[scale] = _served(session, name, scale, known, asked)
    service = _service(session, list(runs.values()), known)
    return _judged(name, session, runs, known, service, Measured(alone, service or _nothing(alone)), asked)


def _service(session: Session, runs: list[_Served], known: ProfileSet) -> InService | None:
    """How times varied, in the stretches that tell, around what the controller predicted with; None if none served."""
    results = [one.result for one in runs]
    if not _ran(results) or not visits(results).tells.any():
        return None
    when_s = [one.when_s for one in runs]
    return in_service(session, results, known, refit=False, when_s=when_s, stretch_s=STRETCH_S)


def _nothing(alone: Calibration) -> InService:
    return InService(alone.profiles, Levels(np.zeros(0), np.zeros(0, dtype=np.int64)), 0.0, 0)


def _ran(rounds: Sequence[RunResult]) -> bool:
    return any(len(result.heads()) for result in rounds)


def _rehearsed(session: Session, name: str, scale: float, known: ProfileSet, asked: _Asked) -> _Served:
    what = f"{name}: serving other requests at SLO scale {scale:g}, to learn what to predict with"
    traffic = asked.trace.with_slo_scale(scale, asked.profiles)
    seed = asked.options.seed
    serving = asked.serving(known)

    def serve() -> RunResult:
        return rehearse(session, traffic, known, seed, seconds=asked.options.rehearsal_s, **serving)

    return _least_disturbed(serve, what, asked)


def _served(session: Session, name: str, scale: float, known: Mapping[str, ModelProfile], asked: _Asked) -> _Served:
    traffic = asked.trace.with_slo_scale(scale, asked.profiles)

    def serve() -> RunResult:
        result = session.run(traffic, profiles=known, **asked.serving(known))
        result.raise_failures()
        return replace(result, counted=asked.judged)

    found = _least_disturbed(serve, f"{name}: serving {len(traffic)} requests at SLO scale {scale:g}", asked)
    asked.tell(f"{name}: SLO scale {scale:g}: real {found.result.attainment:.1%}")
    return found


def _least_disturbed(serve: Callable[[], RunResult], what: str, asked: _Asked) -> _Served:
    """Serve until others leave the cores alone, or the retries are used up: one rule for cells and rounds."""
    attempts: list[tuple[RunResult, float]] = []
    while not attempts or (len(attempts) <= asked.options.retries and foreign(attempts[-1][0]) > OTHERS):
        asked.tell(f"{what}, attempt {len(attempts) + 1}" if attempts else what)
        begun = time.monotonic()
        attempts.append((serve(), (begun + time.monotonic()) / 2))
    result, when_s = min(attempts, key=lambda attempt: foreign(attempt[0]))
    return _Served(result, when_s, len(attempts))


def _judged(
    name: str, session: Session, runs: Mapping[float, _Served], known: Mapping[str, ModelProfile],
    service: InService | None, measured: Measured | None, asked: _Asked,
) -> _Found:  # fmt: skip
    """Expectations of what ran, and curves over a fine grid of scales."""
    asked.tell(f"{name}: drawing what times could have been, {asked.options.draws} times for each cell")
    serving = asked.serving(known) | {"batching": asked.batching}

    def expected(scale: float, draws: int, varies: Variation) -> Forecast:
        traffic = asked.trace.with_slo_scale(scale, asked.profiles)
        how: dict[str, Any] = {"draws": draws, "seed": asked.options.seed, "counted": asked.judged} | serving
        return expect(session.placement, traffic, known, varies, **how)

    cells: list[Cell] = []
    for scale, one in runs.items():
        varies = NO_VARIATION if service is None else service.variation(one.when_s)
        here = expected(scale, asked.options.draws, varies)
        factor = own_level(one.result, known) / varies.stages.mean
        moved = expected(scale, LEVEL_DRAWS, at_level(varies, factor)).mean
        parts = attribute(one.result, here.mean, moved, admission=asked.admission, max_batch=asked.options.max_batch)
        cells.append(Cell(name, float(scale), here, parts, one.result, one.attempts))
    # Simulations cost little beside runs: enough points for a smooth curve, geometric since scales are factors.
    ends = min(asked.scales), max(asked.scales)
    grid = np.geomspace(*ends, CURVE_POINTS).tolist() if len(asked.scales) > 1 else list(asked.scales)
    curve: list[dict[str, object]] = []
    always = NO_VARIATION if service is None else service.profiles.variation
    for scale in grid:
        there = expected(float(scale), CURVE_DRAWS, always)
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
