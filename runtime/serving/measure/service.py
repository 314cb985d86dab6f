"""`in_service`: a placement's costs as they are while it serves, with how they vary, in a profile set.

Probes (`calibrate`) measure one job at a time, or a stream of them that never pauses. In service, jobs come in bursts,
stages begin cold or hot, other stages compute beside them, and between two jobs a stage reports, receives and sends.
So what is predicted with is taken from other requests of the same kind, served by the very processes that will run.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.config import ParallelConfig
from ....profiles.profile import ModelProfile
from ....profiles.profile_set import ProfileSet
from ....profiles.spread import CONSTANT, Spread, Variation
from ....reprs import Shown
from ..result import RunResult
from ..session import Session
from .levels import Levels
from .visits import Gaps, Visits, gaps, visits

__all__ = ["InService", "in_service"]

FloatArray = npt.NDArray[np.float64]

FEW = 8
"""Visits of a kind from which a mean is taken; with fewer the given latency stands, times what the others show."""

RESTS_S = (0.0, 0.005, 0.02, 0.1)
"""Lengths of a stage's rest that are told apart. On cores a visit is 2-4 % slower after 5 ms and does not get slower
with longer rests; a GPU's clocks fall after tens of milliseconds."""

ENOUGH = 30
"""Visits after a rest from which a median is taken: it is known to about a percent then. With fewer the factor of the
shorter rest stands."""

MOST_SD = 0.49
"""A level that is known worse than that is not known: `Spread` takes no more."""

IN_SERVICE = "measured in service"

QUANTILES = 40
"""Quantiles that a distribution of hops or answers is kept as."""


@dataclass(frozen=True, eq=False, repr=False)
class InService(Shown):
    """What a placement cost while it served.

    Parameters
    ----------
    profiles : ProfileSet
        Stage times (each with the turnaround after it), hops and overhead as means in service, and their variation.
    levels : Levels
        Mean factors of the measured runs on these stage times: how the machine drifted from run to run.
    turnaround_s : float
        Seconds that a stage serves nobody between two jobs.
    visits : int
        Visits measured.
    """

    profiles: ProfileSet
    levels: Levels
    turnaround_s: float
    visits: int

    def variation(self, when_s: float) -> Variation:
        """How times vary in a run at that time, by the rounds that are near it."""
        known = self.profiles.variation
        stages = known.stages.scaled(self.levels.at(when_s) / self.levels.at())
        return replace(known, stages=replace(stages, level_sd=min(self.levels.error_at(when_s), MOST_SD)))

    def explain(self) -> str:
        """The measurement in one line."""
        rounds = len(self.levels.factor)
        drift = f", drift between them {self.levels.drift:.1%}" if rounds > 1 else ""
        return (
            f"{self.visits} visits in {rounds} rounds{drift}; turnaround {self.turnaround_s * 1e3:.2f} ms, "
            f"overhead {self.profiles.overhead_s * 1e3:.2f} ms; {self.profiles.variation.stages.explain()}"
        )


def in_service(
    session: Session, runs: Sequence[RunResult], base: ProfileSet, *, refit: bool = True,
    when_s: Sequence[float] | None = None, stretch_s: float | None = None,
) -> InService:  # fmt: skip
    """Costs and their variation, from runs of other requests on a session.

    Of a run that is judged by some of its requests (`SimulationResult.counted`) the others tell.

    Parameters
    ----------
    session : Session
        The session that served.
    runs : sequence of RunResult
        What it served, in rounds.
    base : ProfileSet
        Latencies of what was not seen often enough; of everything without `refit`.
    refit : bool
        True: stage times are the means of these runs, and factors vary around 1. False: the base stands, as a
        controller predicts with it, and factors say how far off it is.
    when_s : sequence of float, optional
        When each run took place, seconds.
    stretch_s : float, optional
        Seconds of the stretches that tell by turns (`compare.stretches`), if they do.

    Raises
    ------
    InputError
        If nothing was served that tells.
    """
    everything = visits(runs)
    found = everything.where(everything.tells)
    if not len(found):
        raise InputError("calibrate: of the requests that were served none tells of the others")
    between = gaps(runs)
    turnaround = between.turnaround_s
    took = found.seconds + turnaround
    profiles = _refitted(session, base, found, took, between, turnaround) if refit else base
    expected = np.array([_latency(session, profiles, *key) for key in _keys(found)])
    rests, rested = _rests(found, took / expected)
    expected *= rested
    ran, index, counts = np.unique(found.run, return_inverse=True, return_counts=True)
    factor = np.bincount(index, took / expected) / counts
    when = None if when_s is None else np.array(when_s, dtype=np.float64)[ran]
    apart = None if stretch_s is None else _apart(found, took / expected, stretch_s)
    levels = Levels(factor, counts, when, apart)
    # A recording of what happens within a run; what differs from run to run is the level's.
    stages = Spread.of_visits(found.start, took, expected * factor[index], found.device, _window(found))
    hops = [profiles[name].stage(config).hop_s for name, config in _hosts(session)]
    variation = Variation(
        replace(stages.scaled(levels.at()), rests=rests, level_sd=min(levels.error, MOST_SD)),
        _spread(between.hop - turnaround, float(np.mean(hops))),
        _spread(_totals(between, turnaround), profiles.overhead_s),
    )
    return InService(replace(profiles, variation=variation), levels, turnaround, len(found))


def _apart(found: Visits, ratio: FloatArray, stretch_s: float) -> FloatArray:
    """Of each run: how far every other one of the stretches that tell is from the rest of them, as a share."""
    half = (found.arrived / (2 * stretch_s)).astype(np.int64) % 2
    out: list[float] = []
    for run in np.unique(found.run):
        parts = [ratio[(found.run == run) & (half == k)] for k in (0, 1)]
        enough = min(map(len, parts)) >= FEW
        out.append(float(np.mean(parts[0]) / np.mean(parts[1])) - 1 if enough else np.nan)
    return np.array(out)


def _rests(found: Visits, ratio: FloatArray) -> tuple[tuple[tuple[float, float], ...], FloatArray]:
    """Factors by the rest before a visit, and that of each visit, 1 in the mean.

    Medians, since slow moments of the machine are not what a rest does; of each round's own level, since rounds rest
    differently.
    """
    own = ratio.copy()
    for run in np.unique(found.run):
        own[found.run == run] /= np.median(ratio[found.run == run])
    kind = np.searchsorted(RESTS_S, found.idle, side="right") - 1
    factors: list[float] = []
    for k in range(len(RESTS_S)):
        mine = own[kind == k]
        factors.append(float(np.median(mine)) if len(mine) >= ENOUGH else factors[-1] if factors else 1.0)
    by_visit = np.array(factors)[kind]
    scale = float(np.mean(by_visit))
    rests = tuple((s, round(f / scale, 4)) for s, f in zip(RESTS_S, factors, strict=True))
    return (rests if len(set(factors)) > 1 else ()), by_visit / scale


def _refitted(
    session: Session, base: ProfileSet, found: Visits, took: FloatArray, between: Gaps, turnaround: float
) -> ProfileSet:
    """The base with what was measured; groups of one configuration share their kinds, and so their figures."""
    kinds, keys = _kinds(session), _keys(found)
    rows: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        rows.setdefault(kinds[key], []).append(i)
    means = {kind: float(np.mean(took[mine])) for kind, mine in rows.items() if len(mine) >= FEW}
    level = float(np.mean(took / np.array([_latency(session, base, *key) for key in keys])))
    hop = _positive_mean(between.hop - turnaround)
    models: dict[str, ModelProfile] = dict(base.items())
    for (group, stage, model, batch), kind in kinds.items():
        name, config = session.models[model], session.placement.groups[group].config
        entry = models[name].stage(config)
        if entry.source != IN_SERVICE:  # batches that do not run take the level of those that do
            given = {b: tuple(level * s for s in stages) for b, stages in entry.latency.items()}
            entry = replace(entry, latency={**given, **{b: entry.latency[b] for b in session.batches}})
        row = list(entry.latency[batch])
        row[stage] = means.get(kind, level * _latency(session, base, group, stage, model, batch))
        entry = replace(
            entry, latency={**entry.latency, batch: tuple(row)}, hop_s=hop if config.pp > 1 else 0.0,
            source=IN_SERVICE,
        )  # fmt: skip
        models[name] = replace(models[name], stages={**models[name].stages, config: entry})
    return replace(base, models=models, overhead_s=_positive_mean(_totals(between, turnaround)))


Key = tuple[int, int, int, int]
"""Group, stage, model, batch."""


def _keys(found: Visits) -> list[Key]:
    columns = (found.group, found.stage, found.model, found.batch)
    group, stage, model, batch = (column.tolist() for column in columns)
    return list(zip(group, stage, model, batch, strict=True))


def _kinds(session: Session) -> dict[Key, Hashable]:
    """What each (group, stage, model, batch) computes: equal architectures cut alike are one kind."""
    kinds: dict[Key, Hashable] = {}
    for task in session.tasks:
        if task.share == 0:
            for hosted in task.models:
                same = json.dumps({k: v for k, v in hosted.spec.items() if k != "name"}, sort_keys=True, default=str)
                for batch in session.batches:
                    kind = (same, hosted.first, hosted.last, task.op, task.pp, batch)
                    kinds[task.group, task.stage, hosted.model, batch] = kind
    return kinds


def _hosts(session: Session) -> list[tuple[str, ParallelConfig]]:
    """Models and the configurations that hold them."""
    held = {(hosted.model, task.group) for task in session.tasks for hosted in task.models}
    return [(session.models[model], session.placement.groups[group].config) for model, group in sorted(held)]


def _latency(
    session: Session, base: Mapping[str, ModelProfile], group: int, stage: int, model: int, batch: int
) -> float:
    return base[session.models[model]].latency(session.placement.groups[group].config, batch)[stage]


def _window(found: Visits) -> float:
    """Seconds of a recording's window: the median visit, and no less than a millisecond."""
    return max(float(np.median(found.seconds)), 1e-3)


def _positive_mean(seconds: FloatArray) -> float:
    return max(float(np.mean(seconds)), 0.0) if len(seconds) else 0.0


def _totals(between: Gaps, turnaround: float) -> FloatArray:
    """Overheads of jobs: what arrival and answer took, less the turnaround that the last stage's time holds.

    Both are small and independent: quantiles of the sum come from pairs of their quantiles.
    """
    if not len(between.answer):
        return np.zeros(0)
    grid = (np.arange(QUANTILES) + 0.5) / QUANTILES
    arrival = np.quantile(between.arrival, grid) if len(between.arrival) else np.zeros(1)
    return np.add.outer(arrival, np.quantile(between.answer, grid)).ravel() - turnaround


def _spread(seconds: FloatArray, expected: float) -> Spread:
    """Independent factors on `expected` with the quantiles of these times; none where they are too few, or nothing."""
    if len(seconds) < FEW or not expected > 0:
        return CONSTANT
    grid = (np.arange(QUANTILES) + 0.5) / QUANTILES
    quantiles = np.maximum(np.quantile(seconds, grid), 1e-3 * expected)  # a message that came early took no time
    return Spread(visits=tuple(np.round(quantiles / expected, 4).tolist()))
