"""Attention of models in which some layers see no further back than a window."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...decoder import DecoderSpec
from ...tables.operators import area
from ..parts import Surface

__all__ = ["windowed", "windowed_area"]

Floats = NDArray[np.float64]


def windowed_area(length: Floats, window: int) -> Floats:
    """Pairs of a token and one that it sees, in a prompt without context: ``L (L + 1) / 2`` as long as it fits."""
    near = np.minimum(length, window)
    return near * (near + 1) / 2 + (length - near) * window


def windowed(found: Surface, model: DecoderSpec, *, areas: bool = False) -> Surface:
    """A surface of all layers, where those with a window read no more than that.

    They take the time that the same kernels take for what they read. Of decodes the mean context counts: where some
    are shorter than the window and others longer, the layers with the window read less than this says.

    Parameters
    ----------
    found : Surface
        Over (sequences, mean context), all layers as if they saw everything.
    model : DecoderSpec
        Says how many do.
    areas : bool
        Whether `y` is the area of a prompt, as of prefill.
    """
    if not model.window_layers or model.chunked:
        return found
    end = float(area(model.window)) if areas else float(model.window)
    # Between points a surface is affine, so the bend at the window needs one; so does the curve of lengths behind it.
    y = np.unique(np.concatenate([found.y, end * np.geomspace(1.0, max(1.0, found.y[-1] / end), 9 if areas else 1)]))
    near = np.minimum(y, end)
    if areas:
        near = windowed_area((np.sqrt(8 * y + 1) - 1) / 2, model.window)
    whole, short = _at(found, y), _at(found, near)
    share = model.window_layers / model.layers
    kind = found.kind[:, np.clip(np.searchsorted(found.y, y), 0, len(found.y) - 1)]
    return Surface(found.x, y, (1 - share) * whole + share * short, kind)


def _at(found: Surface, y: Floats) -> Floats:
    """Seconds at other places of the second coordinate, affine between points and beyond the last two."""
    rows = [np.interp(y, found.y, row) for row in found.seconds]
    slope = (found.seconds[:, -1] - found.seconds[:, -2]) / (found.y[-1] - found.y[-2])
    return np.stack(rows) + slope[:, None] * np.maximum(0.0, y - found.y[-1])[None, :]
