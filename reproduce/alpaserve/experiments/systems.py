"""What the planner figures (12 to 15) share: the systems compared, their traffic, and where they cross 99 %."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .... import planners, traces
from ....profiles import ModelProfile
from ....simulator import Cluster
from ....simulator.placement import Placement, PlacementSchedule
from ....traces import GammaWindows, Trace

__all__ = ["GOAL", "SYSTEMS", "WINDOW_S", "Traffic", "crossing", "placement"]

GOAL = 0.99
"""SLO attainment that the paper asks for (§6.1)."""

SYSTEMS: Mapping[str, str] = {
    "AlpaServe": "alpaserve",
    "Selective Replication": "selective-replication",
    "Clockwork++": "clockwork++",
}
"""Name in the figures -> planner."""


@dataclass(frozen=True)
class Traffic:
    """Traffic of one of the Azure characters, fitted per window and resampled as §6.2 does.

    Parameters
    ----------
    character : str
        ``"MAF1"`` or ``"MAF2"``.
    windows : GammaWindows
        Rates and CVs per window and model at `fine` times the rate.
    fine : float
        Real traces are far denser than what is replayed of them, so rates are fitted on denser ones.
    """

    character: str
    windows: GammaWindows
    fine: float

    @classmethod
    def of(
        cls,
        character: str,
        models: Sequence[str],
        rate: float,
        windows: int,
        window_s: float,
        seed: int,
        fine: float = 10.0,
    ) -> Traffic:
        """Draw traffic of one character, and fit Gamma processes to its windows.

        Parameters
        ----------
        character : str
            ``"MAF1"``: windows of 60 s; ``"MAF2"``: windows of 5,400 s (§6.2, footnote 5).
        models : sequence of str
            Model names.
        rate : float
            Requests per second of all models.
        windows : int
            Number of windows.
        window_s : float
            Seconds of each window that are replayed. Within a window the process is stationary, so less than the
            whole of it samples the same distribution.
        seed : int
            Seed.
        fine : float
            Multiple of the rate that is fitted.
        """
        length = WINDOW_S[character]
        make = traces.maf1_like if character == "MAF1" else traces.maf2_like
        bare = make(fine * rate, windows * length, models, seed=seed)
        fitted = traces.fit_gamma(bare, length, duration=windows * length)
        return cls(character, replace(fitted, edges=fitted.edges * (window_s / length)), fine)

    def hours(self, start: int, stop: int) -> Traffic:
        """Only the windows from `start` to `stop`, times counted from `start`."""
        w = self.windows
        rows = slice(start, stop)
        columns = {name: getattr(w, name)[rows].copy() for name in ("count", "rate", "cv", "source")}
        return replace(self, windows=replace(w, edges=w.edges[start : stop + 1] - w.edges[start], **columns))

    @property
    def window_s(self) -> float:
        """Replayed seconds of a window."""
        return float(self.windows.edges[1])

    def trace(
        self, profiles: Mapping[str, ModelProfile], *, rate_factor: float, cv: float, slo_scale: float, seed: int
    ) -> Trace:
        """Draw a trace from the fitted windows, at another rate, CV and SLO.

        Parameters
        ----------
        profiles : mapping
            Profiles of the models, whose latencies the SLO scale multiplies.
        rate_factor : float
            Multiple of the rate.
        cv : float
            MAF1: the CV itself, which the authors do not fit either; MAF2: a multiple of the fitted CVs.
        slo_scale : float
            SLO as a multiple of the latency on one device.
        seed : int
            Seed.
        """
        scaled = self.windows.scale(rate=rate_factor / self.fine)
        scaled = scaled.with_cv(cv) if self.character == "MAF1" else scaled.scale(cv=cv)
        return scaled.resample(seed).with_slo_scale(slo_scale, profiles)


WINDOW_S = {"MAF1": 60.0, "MAF2": 5400.0}
"""Seconds of the windows in which traces are fitted, as §6.2 prints them. (The authors' artifact re-plans Clockwork++
on MAF2 every 21,600 s.)"""


def placement(
    system: str, devices: int, trace: Trace, profiles: Mapping[str, ModelProfile], *, window_s: float, **options: Any
) -> Placement | PlacementSchedule:
    """Plan for a trace with one of `SYSTEMS`; `window_s` is how often Clockwork++ re-places models."""
    extra = {"window": window_s} if system == "Clockwork++" else {}
    planner = planners.PLANNERS[SYSTEMS[system]]
    return planner(Cluster.of(devices), None, trace, profiles, **extra, **options).placement


def crossing(x: Sequence[float], attainment: Sequence[float], *, rising: bool) -> float:
    """Where attainment crosses `GOAL`, linear between points: §6.1's minimal devices and SLO, maximum rate and CV.

    Parameters
    ----------
    x : sequence of float
        Ascending.
    attainment : sequence of float
        Attainment at each.
    rising : bool
        True: the smallest x with the goal attained (devices, SLO); inf if there is none. False: the largest one (rate,
        CV); NaN if there is none.
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(attainment, dtype=np.float64)
    if rising:
        mirrored = crossing((-xs[::-1]).tolist(), ys[::-1].tolist(), rising=False)
        return math.inf if math.isnan(mirrored) else -mirrored
    attained = np.flatnonzero(ys >= GOAL)
    if not len(attained):
        return math.nan
    # The last crossing, not the first: attainment may dip below the goal by chance and recover.
    last = int(attained[-1])
    # The grid ends above the goal: its last value is a lower bound.
    if last == len(xs) - 1:
        return float(xs[-1])
    share = (ys[last] - GOAL) / (ys[last] - ys[last + 1])
    return float(xs[last] + share * (xs[last + 1] - xs[last]))
