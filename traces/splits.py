"""How traffic is split over models: uniform, a power law, or given shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import InputError
from .columns import FloatArray

__all__ = ["Split", "power_law", "shares"]

Split = Mapping[str, float] | Sequence[float] | str | None


def power_law(n: int, exponent: float) -> FloatArray:
    """Shares of `n` models proportional to ``(i + 1) ** -exponent``, the first model busiest; they sum to 1.

    AlpaServe §6.3 splits with exponent 0.5.
    """
    if not math.isfinite(exponent):
        raise InputError(f"split: the exponent of a power law must be finite (got {exponent})")
    weights = np.arange(1, n + 1, dtype=np.float64) ** -float(exponent)
    return weights / weights.sum()


def shares(split: Split, models: Sequence[str]) -> FloatArray:
    """Share of the traffic of each model, summing to 1.

    Parameters
    ----------
    split : None, str, sequence of float or mapping
        None or ``"uniform"``: equal shares. ``{"power_law": 0.5}``, or ``"power_law:0.5"``: by position, exponent 0.5.
        A sequence: a weight for each model, in order. A mapping from model to weight, for every model. Weights
        are >= 0, not all 0, and are divided by their sum.
    models : sequence of str
        The models.

    Returns
    -------
    ndarray of float, shape (len(models),)

    Raises
    ------
    InputError
        On an unknown law, a model without a weight or a weight without a model, a wrong length, or a negative
        or non-finite weight.
    """
    n = len(models)
    if split is None or (isinstance(split, str) and split == "uniform"):
        return np.full(n, 1.0 / n)
    if isinstance(split, str):
        law, _, exponent = split.partition(":")
        if law == "power_law":
            try:
                return power_law(n, float(exponent or 0.5))
            except ValueError:
                raise InputError(f"split: expected power_law:EXPONENT, such as power_law:0.5 (got {split!r})") from None
        raise InputError(
            f'split: unknown law {split!r}; expected "uniform", {{"power_law": exponent}}, '
            "a list of shares, or shares by model"
        )
    if isinstance(split, Mapping):
        if set(split) == {"power_law"} and "power_law" not in models:
            return power_law(n, float(split["power_law"]))
        unknown = [name for name in split if name not in models]
        if unknown:
            raise InputError(
                f"split: {unknown[0]!r} is neither a model nor a law; models: {', '.join(models[:10])}; "
                'laws: {"power_law": exponent}'
            )
        missing = [name for name in models if name not in split]
        if missing:
            raise InputError(f"split: no share for model {missing[0]!r}; give 0 if it gets no traffic")
        weights = np.array([split[name] for name in models], dtype=np.float64)
    else:
        weights = np.array(list(split), dtype=np.float64)
    if weights.shape != (n,):
        raise InputError(f"split: expected {n} shares, one per model (got {weights.size})")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError(f"split: shares must be finite and >= 0 (got {weights.tolist()})")
    if weights.sum() <= 0:
        raise InputError("split: at least one share must be > 0")
    return weights / weights.sum()
