"""Synthetic traces with the published character of the two Azure Functions traces, for when they are not at hand.

AlpaServe §6.2 describes them: in MAF1 (2019) "each function receives steady and dense incoming requests with
gradually changing rates"; in MAF2 (2021) traffic is very bursty, with spikes "of up to 50× the average" (§1), and
highly skewed, "some function receives orders of magnitude more requests than others". Functions are dealt to the
models round robin, function k to model k mod n, as the paper does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from ...errors import InputError
from ...seeds import generator
from ..columns import FloatArray, model_names
from ..generate import MAX_CV, MAX_REQUESTS
from ..merging import merge_streams
from ..renewal import windowed_renewal
from ..trace import Trace
from .laws import Bursts, Drift

__all__ = ["burst_profile", "drift_profile", "maf1_like", "maf2_like"]

MAX_FUNCTIONS, MAX_CELLS = 1_000_000, 50_000_000
"""Most functions of one trace, and most windows of all functions together (400 MB of rates): guesses at a slip."""


def maf1_like(
    rate: float,
    duration: float,
    models: Sequence[str],
    slo: Any = np.inf,
    seed: int = 0,
    law: Drift | None = None,
) -> Trace:
    """Dense traffic whose rate changes slowly: the character of MAF1 (Azure Functions 2019).

    Every function has a constant mean rate, times a factor that drifts: the exponential of an AR(1) process that
    forgets with time constant `relaxation`. Within a window arrivals are a Gamma process.

    Parameters
    ----------
    rate : float
        Total arrivals per second, in expectation met exactly over the whole trace.
    duration : float
        Seconds.
    models : sequence of str
        Model names.
    slo : float, sequence or mapping
        Seconds, as in `Trace`.
    seed : int
        Seed, >= 0.
    law : Drift, optional
        Number of functions, their spread, how their rates drift.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        On a parameter out of range, or if no request arrives.
    """
    chosen = law or Drift()

    def profile(rng: np.random.Generator, edges: FloatArray) -> FloatArray:
        return drift_profile(rng, edges, chosen.drift, chosen.relaxation)

    asked = _Asked("maf1_like", rate, duration, models, slo, seed)
    return _functions_to_models(asked, chosen, profile, 10, chosen.spread)


def maf2_like(
    rate: float,
    duration: float,
    models: Sequence[str],
    slo: Any = np.inf,
    seed: int = 0,
    law: Bursts | None = None,
) -> Trace:
    """Skewed and spiky traffic: the character of MAF2 (Azure Functions 2021).

    Functions' mean rates are log-normal: with the default `skew` and 96 functions the busiest gets 24 % of all
    requests and 28,000 times as many as the quietest. Each function idles at a low rate and bursts now and then to
    between `peak`/10 and `peak` times its mean.

    Parameters
    ----------
    rate, duration, models, slo, seed
        As in `maf1_like`.
    law : Bursts, optional
        Number of functions, how skewed they are, how they burst.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        On a parameter out of range, or if no request arrives.
    """
    chosen = law or Bursts()

    def profile(rng: np.random.Generator, edges: FloatArray) -> FloatArray:
        return burst_profile(rng, edges, chosen.peak, chosen.burst_share, chosen.burst_length / chosen.window)

    asked = _Asked("maf2_like", rate, duration, models, slo, seed)
    return _functions_to_models(asked, chosen, profile, 3, chosen.skew)


def drift_profile(rng: np.random.Generator, edges: FloatArray, drift: float, relaxation: float) -> FloatArray:
    """Relative rate in each window, mean 1 over time: the exponential of a stationary AR(1) process."""
    keep = math.exp(-float(edges[1] - edges[0]) / relaxation)
    noise = rng.standard_normal(len(edges) - 1) * drift
    noise[1:] *= math.sqrt(1.0 - keep * keep)
    level = np.empty_like(noise)
    state = 0.0
    for i, shock in enumerate(noise.tolist()):
        state = keep * state + shock
        level[i] = state
    factor = np.exp(level)
    return factor / np.average(factor, weights=np.diff(edges))


def burst_profile(
    rng: np.random.Generator, edges: FloatArray, peak: float, burst_share: float, burst_windows: float
) -> FloatArray:
    """Relative rate in each window, mean 1 over time and at most `peak`: a quiet level and random bursts.

    Burst heights are log-uniform between `peak`/10 (at least 1) and `peak`, lengths geometric with mean
    `burst_windows`; bursts are so frequent that they hold `burst_share` of the requests on average, and never more.
    """
    n = len(edges) - 1
    low = max(1.0, peak / 10.0)  # a decade of heights: spikes differ, as in the paper's figures of MAF2; a guess
    mean_height = (peak - low) / math.log(peak / low)
    length = max(1.0, burst_windows)
    starts = np.flatnonzero(rng.random(n) < burst_share / mean_height / length)
    heights = low * (peak / low) ** rng.random(len(starts))
    lengths = rng.geometric(1.0 / length, len(starts))
    burst = np.zeros(n)
    for start, height, steps in zip(starts.tolist(), heights.tolist(), lengths.tolist(), strict=True):
        burst[start : start + steps] = height
    weight = np.diff(edges) / (edges[-1] - edges[0])
    held = float(burst @ weight)
    quiet = float(weight[burst == 0].sum())
    if quiet == 0.0:
        return burst / held
    if held == 0.0 or burst_share <= 1.0 - quiet:  # no burst, or such long ones that their share makes none of them
        return np.ones(n)
    scale = min(1.0, burst_share / held)
    return np.where(burst > 0, burst * scale, (1.0 - held * scale) / quiet)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What both generators are asked: the name of the generator, total rate (1/s), seconds, models, SLO, seed."""

    where: str
    rate: float
    duration: float
    models: Sequence[str]
    slo: Any
    seed: int


def _functions_to_models(
    asked: _Asked,
    law: Drift | Bursts,
    profile: Callable[[np.random.Generator, FloatArray], FloatArray],
    functions_per_model: int,
    sigma: float,
) -> Trace:
    """Draw every function's arrivals from a stream of its own and deal the functions to the models in turn."""
    where, rate, duration, window, cv = asked.where, asked.rate, asked.duration, law.window, law.cv
    _check(rate=rate, duration=duration)
    if cv > MAX_CV:
        raise InputError(f"{where}: cv must be at most {MAX_CV:g} (got {cv})")
    if rate * duration > MAX_REQUESTS:
        raise InputError(f"{where}: {rate * duration:.3g} requests; expected at most {MAX_REQUESTS:.0e}")
    names = model_names(asked.models)
    n = functions_per_model * len(names) if law.functions is None else law.functions
    if n < len(names):
        raise InputError(f"{where}: expected at least one function for each of {len(names)} models (got {n})")
    if n > MAX_FUNCTIONS:
        raise InputError(f"{where}: expected at most {MAX_FUNCTIONS:,} functions (got {n})")
    if n * (windows := duration / window) > MAX_CELLS:
        raise InputError(
            f"{where}: {windows:.3g} windows of {n} functions; expected at most {MAX_CELLS:,} in all: give a shorter "
            "duration, a longer window or fewer functions"
        )
    steps = math.ceil(windows)
    edges = np.minimum(np.arange(steps + 1) * window, duration)
    streams: list[list[FloatArray]] = [[] for _ in names]
    for k, mean in enumerate(rate * _log_normal_shares(n, sigma, generator(asked.seed, where, "rates"))):
        rng = generator(asked.seed, where, "function", k)
        rates = mean * profile(rng, edges)
        streams[k % len(names)].append(_modulated(rng, rates, edges, cv))
    merged = [np.sort(np.concatenate(parts), kind="stable") for parts in streams]
    return merge_streams(merged, names, asked.slo, f"{where}: {rate:g} requests/s for {duration:g} s")


def _log_normal_shares(n: int, sigma: float, rng: np.random.Generator) -> FloatArray:
    """Shares of n functions: the n quantiles of a log-normal law in random order, so that every seed is as skewed."""
    normal = NormalDist()
    weights: FloatArray = np.exp(sigma * np.array([normal.inv_cdf((k + 0.5) / n) for k in range(n)]))
    rng.shuffle(weights)
    return weights / weights.sum()


def _modulated(rng: np.random.Generator, rates: FloatArray, edges: FloatArray, cv: float) -> FloatArray:
    """A Gamma process of rate 1, started in equilibrium, on a clock that runs at ``rates`` in each window."""
    clock = np.concatenate(([0.0], np.cumsum(rates * np.diff(edges))))
    ticks = windowed_renewal(rng, np.ones(1), np.array([cv]), clock[[0, -1]], equilibrium=True)
    return np.interp(ticks, clock, edges)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name}: expected a positive and finite number (got {value})")
