"""Attention over pieces of a sequence, and the merge of their results: the fp64 reference that kernels are held to.

Each shard j gives, for every query head, the largest score ``m``, the sum ``s`` of ``exp(score - m)``, and its own
attention output ``o``. The thesis (§4.4) keeps `o` normalised, as do kernels; its weight in the merge is then
``s exp(m - max m)``, not ``exp(m - max m)``, which would be the weight of an output without normalisation. `m` and `s`
count only through ``lse = m + log s``, so that one number per head can be sent instead of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InputError

__all__ = ["Partial", "empty_partial", "merge", "merge_lse", "partial_attention"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Partial:
    """Attention of queries over some of the keys.

    Parameters
    ----------
    m : ndarray of float, shape (..., heads)
        Largest score; −inf where there was no key.
    s : ndarray of float, shape (..., heads)
        Sum of ``exp(score - m)``; 0 where there was no key.
    o : ndarray of float, shape (..., heads, width)
        Normalised output. Whatever it holds where `s` is 0 is never read: kernels leave it undefined.
    """

    m: FloatArray
    s: FloatArray
    o: FloatArray

    @property
    def lse(self) -> FloatArray:
        """Log of the sum of exponentials of the scores, shape (..., heads); −inf where there was no key."""
        with np.errstate(divide="ignore"):
            return np.where(self.s > 0, self.m + np.log(self.s), -np.inf)


def partial_attention(q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike, *, scale: float | None = None) -> Partial:
    """Attention of one query over a piece of its sequence, in fp64.

    Parameters
    ----------
    q : array_like, shape (heads, width)
        The query.
    k, v : array_like, shape (tokens, kv_heads, width) and (tokens, kv_heads, out_width)
        Keys and values of the piece; `tokens` may be 0. Query heads share KV heads in groups, in order.
    scale : float, optional
        Factor on the scores; ``1 / sqrt(width)`` if left out.

    Raises
    ------
    InputError
        If shapes do not fit.
    """
    query, key, value = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    if query.ndim != 2 or key.ndim != 3 or value.ndim != 3 or key.shape[:2] != value.shape[:2]:
        raise InputError(f"partial_attention: shapes do not fit (got {query.shape}, {key.shape}, {value.shape})")
    heads, width = query.shape
    if key.shape[2] != width or heads % max(1, key.shape[1]):
        raise InputError(f"partial_attention: {key.shape[1:]} keys do not fit queries of {query.shape}")
    if not len(key):
        return empty_partial((heads,), value.shape[2])
    factor = width**-0.5 if scale is None else scale
    group = heads // key.shape[1]
    score = factor * np.einsum("hd,lhd->hl", query, np.repeat(key, group, axis=1))
    m = score.max(axis=1)
    weight = np.exp(score - m[:, None])
    s = weight.sum(axis=1)
    return Partial(m, s, np.einsum("hl,lhd->hd", weight, np.repeat(value, group, axis=1)) / s[:, None])


def empty_partial(shape: tuple[int, ...], width: int) -> Partial:
    """The result over no key: the neutral element of `merge`."""
    return Partial(np.full(shape, -np.inf), np.zeros(shape), np.zeros((*shape, width)))


def merge(parts: Sequence[Partial]) -> Partial:
    """The result over all keys of the parts: ``m = max m_j, s = sum s_j e^(m_j - m), o = sum o_j s_j e^(m_j - m) / s``.

    Associative and commutative up to rounding; parts without keys change nothing, and a merge of nothing but such
    parts is one.

    Raises
    ------
    InputError
        On no parts.
    """
    if not parts:
        raise InputError("merge: expected at least one partial result (got none)")
    m_j = np.stack([np.where(p.s > 0, p.m, -np.inf) for p in parts])
    s_j = np.stack([p.s for p in parts])
    m = m_j.max(axis=0)
    weight = s_j * np.exp(np.where(s_j > 0, m_j - np.where(np.isfinite(m), m, 0.0), -np.inf))
    s = weight.sum(axis=0)
    return Partial(m, s, _average(weight, s, [p.o for p in parts]))


def merge_lse(lse: Sequence[npt.ArrayLike], o: Sequence[npt.ArrayLike]) -> tuple[FloatArray, FloatArray]:
    """The same merge where each part gives one log of a sum instead of `m` and `s`.

    Parameters
    ----------
    lse : sequence of array_like, shape (..., heads) each
        −inf where a part had no key.
    o : sequence of array_like, shape (..., heads, width) each
        Normalised outputs.

    Returns
    -------
    lse, o : ndarray
        Of all parts together. The weights ``exp(lse_j - lse)`` are what vLLM corrects outputs with before it adds
        them up in a reduce-scatter.

    Raises
    ------
    InputError
        On no parts, or different numbers of them.
    """
    if not lse or len(lse) != len(o):
        raise InputError(f"merge_lse: expected as many sums as outputs, at least one (got {len(lse)} and {len(o)})")
    each = np.stack([np.asarray(x, dtype=np.float64) for x in lse])
    top = each.max(axis=0)
    weight = np.exp(each - np.where(np.isfinite(top), top, 0.0))
    total = weight.sum(axis=0)
    with np.errstate(divide="ignore"):
        found = np.where(total > 0, top + np.log(total), -np.inf)
    return found, _average(weight, total, [np.asarray(x, dtype=np.float64) for x in o])


def _average(weight: FloatArray, total: FloatArray, o: Sequence[FloatArray]) -> FloatArray:
    """Outputs by weight; where a weight is 0 the output is not read (it may be NaN)."""
    each = weight[..., None]
    summed = np.where(each > 0, np.stack(o), 0.0) * each
    return summed.sum(axis=0) / np.where(total > 0, total, 1.0)[..., None]
