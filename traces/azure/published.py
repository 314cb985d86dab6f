"""The exact arrivals behind AlpaServe's published figures, to reproduce them. For anything else, use `gamma`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InputError
from ..columns import FloatArray, model_names
from ..generate import model_rates
from ..merging import merge_streams
from ..splits import Split
from ..trace import Trace

__all__ = ["alpaserve_gamma"]


def alpaserve_gamma(
    rate: float | Sequence[float],
    cv: float,
    duration: float,
    models: Sequence[str],
    split: Split = None,
    slo: Any = np.inf,
    seed: int = 0,
) -> Trace:
    """Gamma arrivals, bit for bit as the authors' public code (alpa-projects/mms) draws them.

    Model i draws its gaps from numpy's legacy generator seeded with ``seed + i`` (so models depend on their position,
    and one model's arrivals in two traces of neighbouring seeds are another's), shape 1/cv², scale cv²/rate; the
    first arrival comes after one full gap. Legacy streams are frozen by numpy's compatibility policy (NEP 19).

    Parameters
    ----------
    rate, cv, duration, models, split, slo
        As in `gamma`; one `cv` for all models. The authors split by the power law with exponent 0.5, or evenly.
    seed : int
        Seed of the first model, >= 0.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        On a rate, CV or duration that is not positive and finite, or if no request arrives.
    """
    if not (math.isfinite(duration) and duration > 0):
        raise InputError(f"duration: expected positive and finite seconds (got {duration})")
    if not (math.isfinite(cv) and cv > 0):
        raise InputError(f"cv: expected a positive and finite number (got {cv})")
    if seed < 0:
        raise InputError(f"seed: expected an integer >= 0 (got {seed})")
    names = model_names(models)
    rates = model_rates(rate, split, names)
    streams = [_arrivals(float(r), cv, duration, seed + i) for i, r in enumerate(rates)]
    return merge_streams(streams, names, slo, f"{rates.sum():g} requests/s for {duration:g} s")


def _arrivals(rate: float, cv: float, duration: float, seed: int) -> FloatArray:
    if rate == 0:
        return np.empty(0)
    legacy = np.random.RandomState(seed)
    gaps = np.empty(0)
    while True:
        # A fifth more than expected, as a rule in one draw; how many are drawn at once does not change the stream.
        more = legacy.gamma(1.0 / (cv * cv), cv * cv / rate, size=max(int(rate * duration * 1.2), 1))
        gaps = np.concatenate([gaps, more])
        times = np.cumsum(gaps)  # adds from left to right, as their loop does
        if times[-1] >= duration:
            return times[times < duration]
