"""Attention of a model's own heads from tables of other heads: over sequences and lengths, all layers together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tables.grid import EXTRAPOLATED, Grid
from ..tables.kernels import Peaks
from ..tables.operators import area, decode_ideal, prefill_ideal
from .parts import Surface

__all__ = ["Heads", "Tables", "decode_surface", "nearest_tables", "prefill_surface"]

Floats = NDArray[np.float64]
Tables = Mapping[tuple[str, int, int], Grid]
PREFILL_EFFICIENCY = 0.5
"""Share of the peak that the roofline alone assumes for prefill attention: what H100 tables reach at 2048 tokens."""
DECODE_EFFICIENCY = 0.85
"""Share of the bandwidth that the roofline alone assumes for decodes: 0.92 and 0.79 of long ones in the tables of H100s
and A100s; in H200s', which it was not rounded from, 0.89."""
ATTENTION_S = 12e-6
"""Fixed time of attention that the roofline alone assumes: its split, its merge, few blocks at work. What the smallest
calls of H100s' table take, in the median; H200s' take 12.6 us and A100s' 18.9."""
LONGEST_PROMPT, LONGEST_CONTEXT, MOST = 2.0**14, 2.0**17, 4096.0
"""Ends of the surfaces (tokens of a prompt, of a context, and sequences) where nothing was measured. They only set
where points are laid: beyond them the same roofline goes on."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention of one rank.

    Parameters
    ----------
    layers : int
        Transformer layers.
    heads, kv_heads, size : int
        Attention heads, KV heads, and the width of one.
    kv : str
        Precision of the KV cache, by its name in the tables.
    """

    layers: int
    heads: int
    kv_heads: int
    size: int
    kv: str

    @property
    def kv_bytes(self) -> int:
        """Bytes of one number of the cache."""
        return 1 if self.kv == "fp8" else 2


def decode_surface(tables: Tables, heads: Heads, peaks: Peaks, latent: Callable[..., Any] | None = None) -> Surface:
    """Attention of decodes over (sequences, context).

    Every (sequence, KV head) pair is the same work and depends on no other, so that tables with other numbers of KV
    heads, but as many heads to each, tell of the same work with other numbers of sequences. Where several were
    measured, the fastest arrangement counts: engines split the work over all pairs alike, while kernels that are timed
    on their own (no schedule made ahead) split badly along sequences: 16 pairs of 8,192 tokens take 36 us on an H100
    as 2 sequences of 8 KV heads, and 81 us as 16 of one.
    """
    near = nearest_tables(tables, heads)
    if near is None:
        ideal = latent or decode_ideal(peaks, heads.kv_heads, heads.size, heads.kv_bytes)
        return _roofline(ideal, heads, DECODE_EFFICIENCY, peaks, lambda length: length, LONGEST_CONTEXT)
    group = heads.heads / heads.kv_heads
    grids = {kv: grid for (_, kv, _), grid in near.items()}
    fold = {kv: heads.kv_heads / kv for kv in grids}
    sequences = np.unique(np.concatenate([grid.axes[1] / fold[kv] for kv, grid in grids.items()]))
    lengths = np.unique(np.concatenate([grid.axes[2] for grid in grids.values()]))
    found = {kv: grid.at(group * kv, sequences[:, None] * fold[kv], lengths[None, :]) for kv, grid in grids.items()}
    own = _own(grids, heads.kv_heads)
    seconds, kind = found[own]
    # Only measured or interpolated points may compete: an extrapolated one could win by being wrong.
    best = np.where(kind == EXTRAPOLATED, np.inf, seconds)
    for other, basis in found.values():
        better = (basis != EXTRAPOLATED) & (other < best)
        best, kind = np.where(better, other, best), np.where(better, basis, kind)
    return _scaled(sequences, lengths, np.where(np.isinf(best), seconds, best), kind, near, heads)


def prefill_surface(tables: Tables, heads: Heads, peaks: Peaks, latent: Callable[..., Any] | None = None) -> Surface:
    """Attention of equal prompts without context over (prompts, pairs of tokens); `latent`: another roofline."""
    near = nearest_tables(tables, heads)
    if near is None:
        ideal = latent or prefill_ideal(peaks, heads.size)
        return _roofline(ideal, heads, PREFILL_EFFICIENCY, peaks, area, LONGEST_PROMPT)
    grids = {kv: grid for (_, kv, _), grid in near.items()}
    own = _own(grids, heads.kv_heads)
    fold = heads.kv_heads / own
    _, prompts, lengths = grids[own].axes
    seconds, kind = grids[own].at(heads.heads / fold, prompts[:, None], lengths[None, :])
    surface = _scaled(prompts / fold, lengths, seconds, kind, near, heads)
    return Surface(surface.x, np.asarray(area(surface.y), dtype=float), surface.seconds, surface.kind)


def nearest_tables(tables: Tables, heads: Heads) -> Tables | None:
    """The tables of our precision and head size, or else those of the nearest ones."""
    if not tables:
        return None
    precision = heads.kv if any(key[0] == heads.kv for key in tables) else next(iter(tables))[0]
    widths = {key[2] for key in tables if key[0] == precision}
    # By logarithms, since time is scaled by the ratio of the widths; of two as near the narrower one, for a fixed
    # answer.
    width = min(widths, key=lambda size: (abs(np.log(size / heads.size)), size))
    return {key: grid for key, grid in tables.items() if key[0] == precision and key[2] == width}


def _own(grids: Mapping[int, Grid], kv_heads: int) -> int:
    """The most KV heads with a table that divide ours; the fewest if none does."""
    dividing = [kv for kv in grids if kv_heads % kv == 0]
    return max(dividing) if dividing else min(grids)


def _scaled(x: Floats, y: Floats, seconds: Any, kind: Any, near: Tables, heads: Heads) -> Surface:
    """Scale one layer's seconds to all layers, and to another width or precision by its bytes, never below a launch."""
    precision, _, width = next(iter(near))
    ratio = heads.size / width * heads.kv_bytes / (1 if precision == "fp8" else 2)
    if ratio != 1.0:
        # The table's smallest time is all launch, which narrower heads do not shorten.
        seconds = np.maximum(seconds * ratio, seconds.min())
        kind = np.full(seconds.shape, EXTRAPOLATED)
    return Surface(x, y, heads.layers * seconds, kind)


def _roofline(
    ideal: Callable[..., Any],
    heads: Heads,
    efficiency: float,
    peaks: Peaks,
    work: Callable[[Any], Any],
    longest: float,
) -> Surface:
    x, y = np.array([1.0, MOST]), np.array([1.0, longest])
    seconds = np.asarray(ideal(heads.heads, x[:, None], y[None, :]), dtype=float) / efficiency
    seconds += max(ATTENTION_S, peaks.kernel_s)
    return Surface(x, np.asarray(work(y), dtype=float), heads.layers * seconds, np.full(seconds.shape, EXTRAPOLATED))
