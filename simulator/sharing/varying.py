"""`Speeds`: how the GPUs of a shared cluster differ and vary, and what that makes of the speed of a gang.

The tasks of a job wait for each other in every iteration, so an iteration takes the profile's time times the largest
factor of its GPUs. A GPU's factor has two parts (see `Spread`): one that hangs together in time, which is drawn by GPU
and window of time, and one that each iteration draws anew. Leases take minutes and iterations seconds, so within a
window a job makes many: it goes by the mean of the largest factor (law of large numbers), and no iteration is drawn.
With windows of a tenth of the correlation time, whatever the policy does, a GPU has the same factor at the same
second: policies meet the same slow machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...profiles.spread import Spread
from ...reprs import Shown
from ..draws import MAX_WINDOWS, Draws, draw
from .cluster import SharedCluster
from .workload.app import App

__all__ = ["CELLS", "Speeds", "draw_speeds"]

Floats = npt.NDArray[np.float64]

CELLS = 64
"""Steps of the integral over factors (midpoint rule). The error is a share 1/CELLS² of the factors' range, about."""

MAX_FACTORS = 2**24
"""Factors that are kept of all GPUs together: 128 MiB."""


@dataclass(frozen=True, eq=False, repr=False)
class Speeds(Shown):
    """The factors of one run on what iterations take.

    Parameters
    ----------
    draws : Draws
        Of each GPU: the path of its slow windows, and the quantiles of what each iteration draws anew.

    Raises
    ------
    InputError
        If a factor is not positive and finite.
    """

    draws: Draws

    def __post_init__(self) -> None:
        for array in (self.draws.slow, self.draws.visits):
            if not (np.isfinite(array) & (array > 0)).all():
                raise InputError("speeds: expected positive finite factors")

    def __len__(self) -> int:
        """GPUs."""
        return len(self.draws)

    @cached_property
    def low(self) -> float:
        """The least factor that an iteration draws."""
        return float(self.draws.visits[0])

    @cached_property
    def step(self) -> float:
        """Width of a cell between the least and the largest."""
        return (float(self.draws.visits[-1]) - self.low) / CELLS

    @cached_property
    def share(self) -> Floats:
        """The share of iterations whose own factor is at most so large, at the edges of cells: shape (CELLS + 1,); one
        number where iterations do not differ. The largest factor itself is not counted: it has a share of its own."""
        visits = self.draws.visits
        if not self.step > 0:
            return np.ones(1)
        edges = self.low + self.step * np.arange(CELLS + 1)
        return (np.interp(edges, visits, np.arange(len(visits), dtype=np.float64)) + 0.5) / len(visits)

    @cached_property
    def largest(self) -> float:
        """The largest factor that there is."""
        return float(self.draws.slow.max() * self.draws.visits[-1])

    def window(self, at_s: float) -> int:
        """The window of an instant."""
        return int(at_s / self.draws.window_s) if self.draws.slow.shape[1] > 1 else 0

    def end(self, window: int) -> float:
        """When a window is over, seconds; never, if nothing hangs together in time."""
        return (window + 1) * self.draws.window_s if self.draws.slow.shape[1] > 1 else math.inf

    def factor(self, gpus: Sequence[int], window: int) -> float:
        """What an iteration takes on these GPUs in a window, in the mean, over what it takes by the profile.

        The mean of the largest of s₁V₁ … sₙVₙ, where s are the GPUs' factors in the window and V what the iteration
        draws for each: with s the largest of them, s·(v₀ + ∫ 1 − Π P(V ≤ s·y/sₖ) dy) from the least factor v₀ on.
        """
        column, share = window % self.draws.slow.shape[1], self.share
        if len(share) == 1:
            item = self.draws.slow.item  # a few numbers: NumPy's own largest of them takes ten times as long
            return max([item(gpu, column) for gpu in gpus]) * self.low
        slow = self.draws.slow[list(gpus), column]
        top = float(slow.max())
        factors, below = self.low + (np.arange(CELLS) + 0.5) * self.step, np.ones(CELLS)
        for mine in slow:
            place = (factors * top / mine - self.low) / self.step
            edge = np.minimum(place, CELLS - 1).astype(np.int64)
            within = share[edge] + (share[edge + 1] - share[edge]) * (place - edge)
            below *= np.where(place < CELLS, within, 1.0)
        total = float(np.cumsum(1.0 - below)[-1])  # one after the other, as the compiled engine adds
        return top * (self.low + total * self.step)

    def finish(self, left_s: float, at_s: float, rate: float, gpus: Sequence[int]) -> float:
        """When work is done that is worked off at `rate` over the factor of each window, from an instant on.

        Parameters
        ----------
        left_s : float
            GPU seconds.
        at_s : float
            Seconds.
        rate : float
            GPU seconds per second by the profile.
        gpus : sequence of int
            Where.
        """
        window = self.window(at_s)
        while True:
            pace, end = rate / self.factor(gpus, window), self.end(window)
            if left_s <= (end - at_s) * pace:
                return at_s + left_s / pace
            left_s -= (end - at_s) * pace
            at_s, window = end, window + 1

    def _headline(self) -> str:
        return f"{len(self)} GPUs, factors up to {self.largest:.3f}"


def draw_speeds(spread: Spread, cluster: SharedCluster, apps: Sequence[App], seed: int, *names: int) -> Speeds:
    """Draw the factors of one run.

    Each GPU has streams of its own. They know no policy: under one seed all policies meet the same slow windows.

    Parameters
    ----------
    spread : Spread
        How GPUs vary.
    cluster : SharedCluster
        The GPUs.
    apps : sequence of App
        By arrival: how long the run will be, about. A run twice as long as their work takes meets the same factors
        again.
    seed : int
        Seed.
    *names : int
        Which run under that seed.

    Raises
    ------
    InputError
        On windows too short for so much work.
    """
    works = [app.work_s(k) * app.slowdown.cluster for app in apps for k in range(len(app.phases))]
    own = [sum(app.work_s(k) for k in range(len(app.phases))) * app.slowdown.cluster / app.max_gpus for app in apps]
    late = apps[-1].arrival_s if apps else 0.0
    horizon = late + 2.0 * spread.mean * (sum(works) / cluster.n_gpus + max(own, default=0.0))
    most = min(MAX_WINDOWS, MAX_FACTORS // cluster.n_gpus)
    window = spread.window_s if spread.paths else spread.correlation_s / 10
    if (spread.paths or len(spread.runs) > 1) and horizon > most * window:
        raise InputError(
            f"spread: correlation: {spread.correlation_s:g} s are too short for {horizon:.3g} s on {cluster.n_gpus} "
            f"GPUs; expected {10 * horizon / most:.3g} s or more, or factors that each iteration draws anew (visits)"
        )
    return Speeds(draw(spread, cluster.n_gpus, horizon, seed, "sharing", *names))
