"""Poisson and Gamma arrivals over several models, each model from a random stream of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..seeds import generator
from .columns import FloatArray, model_names
from .merging import merge_streams
from .renewal import renewal
from .splits import Split, shares
from .trace import Trace

__all__ = ["gamma", "model_rates", "poisson"]

MAX_REQUESTS = 100_000_000
"""More expected requests than this (2 GB of columns, at 20 bytes each) are taken for a slip of the keyboard."""
MAX_CV = 1000.0
"""Largest CV. Above it, gaps of shape 1/CV² underflow to 0 so often that drawing them takes for ever."""


def poisson(
    rate: float | Sequence[float] | Mapping[str, float],
    duration: float,
    models: Sequence[str],
    split: Split = None,
    slo: Any = np.inf,
    seed: int = 0,
) -> Trace:
    """Independent Poisson arrivals of each model: `gamma` with CV 1."""
    return gamma(rate, 1.0, duration, models, split=split, slo=slo, seed=seed)


def gamma(
    rate: float | Sequence[float] | Mapping[str, float],
    cv: float | Sequence[float] | Mapping[str, float],
    duration: float,
    models: Sequence[str],
    split: Split = None,
    slo: Any = np.inf,
    seed: int = 0,
) -> Trace:
    """Independent Gamma arrivals of each model, merged.

    Each model is a renewal process whose first arrival comes after one full gap. Its stream is seeded by the
    model's name, so adding a model moves no arrival of the others as long as their rates stay.

    Parameters
    ----------
    rate : float, sequence or mapping
        Total arrivals per second over all models, split by `split`; or a rate for each model, in order or by
        name.
    cv : float, sequence or mapping
        Coefficient of variation of the inter-arrival times of a model, one for all or one each; in (0, 1000],
        and 1 is Poisson.
    duration : float
        Seconds; arrivals fall in ``[0, duration)``.
    models : sequence of str
        Model names.
    split : None, sequence or mapping
        None: uniform. ``{"power_law": 0.5}``, shares in order, or shares by model: see `splits.shares`.
    slo : float, sequence or mapping
        Seconds, as in `Trace`.
    seed : int
        Seed, >= 0.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        On a rate, CV or duration that is not positive and finite, a wrong split, or if no request arrives.
    """
    names = model_names(models)
    if not (math.isfinite(duration) and duration > 0):
        raise InputError(f"duration: expected positive and finite seconds (got {duration})")
    rates = model_rates(rate, split, names)
    asked = f"{rates.sum():g} requests/s for {duration:g} s"
    if rates.sum() * duration > MAX_REQUESTS:
        raise InputError(f"{asked} are {rates.sum() * duration:.3g} requests; expected at most {MAX_REQUESTS:.0e}")
    cvs = _per_model(cv, names, "cv")
    if not ((cvs > 0) & (cvs <= MAX_CV)).all():
        raise InputError(f"cv: expected a number in (0, {MAX_CV:g}] (got {cv})")
    streams = [
        renewal(generator(seed, "arrivals", name), float(r), float(c), duration)
        for name, r, c in zip(names, rates, cvs, strict=True)
    ]
    return merge_streams(streams, names, slo, asked)


def model_rates(rate: float | Sequence[float] | Mapping[str, float], split: Split, models: Sequence[str]) -> FloatArray:
    """Arrivals per second of each model, shape ``(len(models),)``, from a total and a split or from rates.

    Raises
    ------
    InputError
        On a rate that is negative or not finite, a total of 0, or rates per model together with a split.
    """
    if isinstance(rate, Mapping) or np.ndim(rate) > 0:
        if split is not None:
            raise InputError("rate: given per model, so a split has nothing to split; give one of the two")
        rates = _per_model(rate, models, "rate")
    else:
        rates = _per_model(rate, models, "rate") * shares(split, models)
    if not (np.isfinite(rates).all() and (rates >= 0).all() and rates.sum() > 0):
        raise InputError(f"rate: expected positive and finite requests per second (got {rate})")
    return rates


def _per_model(value: float | Sequence[float] | Mapping[str, float], models: Sequence[str], what: str) -> FloatArray:
    try:
        if isinstance(value, Mapping):
            unknown = [name for name in value if name not in models]
            missing = [name for name in models if name not in value]
            if unknown or missing:
                problem = f"unknown model {unknown[0]!r}" if unknown else f"none for model {missing[0]!r}"
                raise InputError(f"{what}: {problem}; models: {', '.join(models[:10])}")
            return np.array([value[name] for name in models], dtype=np.float64)
        given = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{what}: expected a number (got {value!r})") from None
    if given.ndim == 0:
        return np.full(len(models), float(given))
    if given.shape != (len(models),):
        raise InputError(f"{what}: expected {len(models)} figures, one per model (got shape {given.shape})")
    return given
