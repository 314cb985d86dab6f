"""Expert parallelism: what the fullest rank has to do, since all others wait for it in every layer.

Experts lie on their ranks as they are numbered, and gates know nothing of ranks: the popular ones
(`experts.popularity`) fall on any of them, in every layer anew. So ranks differ for good, by the popularity that fell
to them, and from batch to batch, by chance. Both are drawn here, with one seed, and the mean over draws of the fullest
rank counts; a model has about as many layers as there are draws, so that its sum over layers is near it. Ranks whose
experts are laid out anew to bear equal loads (vLLM's ``--enable-eplb``, DeepSeek's EPLB) differ by chance alone:
``balanced=True``.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...seeds import generator
from .experts import SKEW, distinct_experts, popularity

__all__ = ["DRAWS", "fullest_rank"]

Floats = NDArray[np.float64]
DRAWS = 64
"""Layers that are drawn: DeepSeek-V3 has 58 with experts, Qwen3-235B-A22B 94."""
POINTS = 64
"""Batch sizes at which the loads are drawn; between them they are read along logarithms."""
MOST = 2.0**20


def fullest_rank(
    experts: int, per_token: int, ranks: int, tokens: Floats, skew: float = SKEW, balanced: bool = False
) -> tuple[Floats, Floats]:
    """Rows and distinct experts of the fullest of the ranks that experts are split over, in expectation.

    Parameters
    ----------
    experts, per_token : int
        Routed experts of a layer, and those that a token goes to.
    ranks : int
        Ranks that they are split over; it divides them.
    tokens : array
        Tokens of all ranks.
    skew : float
        Spread of the experts' popularity.
    balanced : bool
        Whether every rank's experts are equally popular together.

    Returns
    -------
    (array, array)
        Rows (tokens times experts that they go to) that the fullest rank computes, and distinct experts of which the
        rank that has most reads the weights; with one rank all of both.
    """
    size = np.asarray(tokens, dtype=float)
    if ranks == 1:
        return size * per_token, distinct_experts(experts, per_token, size, skew)
    at, more, distinct = _drawn(experts, per_token, ranks, skew, balanced)
    where = np.clip(size, 1.0, MOST)
    return (
        size * per_token / ranks * np.interp(np.log(where), at, more),
        np.where(size > 0, np.interp(np.log(where), at, distinct), 0.0),
    )


@cache
def _drawn(experts: int, per_token: int, ranks: int, skew: float, balanced: bool) -> tuple[Floats, Floats, Floats]:
    """Logarithms of batch sizes; rows of the fullest rank over the mean, and the most distinct experts, at each."""
    each = experts // ranks
    rng = generator(0, "experts", "ranks")
    chance = np.stack([rng.permutation(popularity(experts, per_token, skew)) for _ in range(DRAWS)])
    chance = chance.reshape(DRAWS, ranks, each)
    if balanced:  # the same spread within each rank
        share = chance.sum(axis=2, keepdims=True)
        chance = np.minimum(chance * (per_token / ranks) / share, 1.0)
    hits = rng.random((DRAWS, ranks, each))
    # Rows of all ranks add up to tokens x k: the deviations of the ranks cancel.
    normal = rng.standard_normal((DRAWS, ranks))
    normal = (normal - normal.mean(axis=1, keepdims=True)) * np.sqrt(ranks / (ranks - 1))
    mean, variance = chance.sum(axis=2), (chance * (1 - chance)).sum(axis=2)
    sizes = np.unique(np.round(np.geomspace(1.0, MOST, POINTS)))
    with np.errstate(divide="ignore"):
        missed = np.log1p(-chance)
    rows, distinct = np.empty(len(sizes)), np.empty(len(sizes))
    for i, n in enumerate(sizes.tolist()):
        fullest = (n * mean + np.sqrt(n * variance) * normal).max(axis=1)
        even = n * per_token / ranks
        rows[i] = float(np.clip(fullest, even, n * min(per_token, each)).mean()) / even
        distinct[i] = float((hits < -np.expm1(n * missed)).sum(axis=2).max(axis=1).mean())
    # More tokens touch no fewer experts; draws of few layers may say so by chance.
    distinct = np.maximum.accumulate(np.clip(distinct, 1.0, each))
    for array in (rows, distinct):
        array.setflags(write=False)
    return np.log(sizes), rows, distinct
