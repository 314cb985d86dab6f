"""Mixtures of experts: how many of them a batch touches.

A token goes to ``k`` of ``E`` experts. Of a batch of ``T`` tokens that choose on their own, expert e is chosen by at
least one with probability ``1 - (1 - p_e)^T``, where `p_e` is the chance that a token goes there (they sum to k). The
distinct experts, whose weights must be read, are therefore

    D(T) = sum over e of 1 - (1 - p_e)^T,        E (1 - (1 - k / E)^T) where all are alike.

Trained gates have favourites. `SKEW` is the spread of their popularity (the standard deviation of its logarithm):
`p_e` are the quantiles of a lognormal distribution. Recorded gate decisions of Qwen3-30B-A3B (110,640 calls, published
in LLMServingSim's documentation of its expert routing) touch 0.87 of the uniform law's experts through the middle of
the range, 0.94 at a full decode batch and exactly k at one token; a spread of 0.7 gives 0.87 at 16 to 32 tokens, 0.92
at 64 and 0.98 at 128. It is a property of gates, of no device and no run; pass another where yours is known.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError

__all__ = ["MOST_SKEW", "SKEW", "distinct_experts", "popularity"]

Floats = NDArray[np.float64]
SKEW = 0.7
"""Standard deviation of the logarithm of experts' popularity."""
MOST_SKEW = 10.0
"""Largest that cases and plans take: all tokens choose the same experts long before."""


def popularity(experts: int, per_token: int, skew: float = SKEW) -> Floats:
    """Chance that a token goes to each expert, shape ``(experts,)``, falling; they sum to `per_token`.

    Parameters
    ----------
    experts, per_token : int
        Experts, and those that a token goes to.
    skew : float
        Standard deviation of the logarithm; 0: all alike. None is above 1: what would be goes to the others.

    Raises
    ------
    InputError
        On no experts, more per token than there are, or a negative skew.
    """
    if experts < 1 or not 1 <= per_token <= experts:
        raise InputError(f"experts: expected 1 <= per token <= experts (got {per_token} of {experts})")
    if not (np.isfinite(skew) and skew >= 0):
        raise InputError(f"skew: expected a finite spread >= 0 (got {skew})")
    # Midpoint quantiles stand for a draw of the law: the popularity is then the same in every run, and needs no seed.
    places = [NormalDist().inv_cdf((i + 0.5) / experts) for i in reversed(range(experts))]
    weight = np.exp(skew * np.asarray(places, dtype=np.float64))
    chance = np.zeros(experts)
    full = 0  # experts that every token goes to
    while full < experts:
        rest = weight[full:] * ((per_token - full) / weight[full:].sum())
        if rest[0] <= 1.0:
            chance[full:] = rest
            break
        # A token goes to an expert once at most: what the law would send above that is dealt to the others again.
        chance[full] = 1.0
        full += 1
    return chance


def distinct_experts(experts: int, per_token: int, tokens: Any, skew: float = SKEW) -> Floats:
    """Experts that a batch touches, in expectation; the law is at the head of this module.

    Parameters
    ----------
    experts, per_token : int
        Experts, and those that a token goes to.
    tokens : array_like
        Tokens of the batch, any shape.
    skew : float
        Spread of the experts' popularity.

    Returns
    -------
    ndarray of float64
        Same shape as `tokens`; between `per_token` (one token) and `experts`.
    """
    size = np.asarray(tokens, dtype=np.float64)
    chance = popularity(experts, per_token, skew)
    different, inverse = np.unique(size, return_inverse=True)
    with np.errstate(divide="ignore"):
        missed = np.log1p(-chance)  # -inf where every token goes there
    found = np.array([float((-np.expm1(t * missed)).sum()) if t > 0 else 0.0 for t in different.tolist()])
    return found[inverse].reshape(size.shape)
