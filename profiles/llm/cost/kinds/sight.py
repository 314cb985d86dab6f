"""How long a tower takes to see the images of a request."""

from __future__ import annotations

import math

from ...tables.kernels import Peaks
from ...tower import Image, Tower
from ..overheads import EAGER_LAUNCH_S

__all__ = ["tower_seconds"]

MATRICES, ATTENTION = 0.7, 0.5
"""Shares of the peak that matrices and attention reach, as of decoders by the roofline alone."""
KERNELS = 12
"""Kernels of one layer: two norms, four products, rotation, attention, activation, two sums, a copy. A round count."""


def tower_seconds(tower: Tower, images: tuple[Image, ...], peaks: Peaks, tp: int = 1) -> float:
    """Seconds of the tower for some images, by the roofline: products, attention among patches, and their launches.

    Engines run it eagerly, kernel by kernel and image by image of different shapes together, ahead of the decoder's
    step. Its heads and widths are split like the decoder's where they divide; else every rank computes all.

    Parameters
    ----------
    tower : Tower
        The tower.
    images : tuple of (int, int)
        Heights and widths, pixels.
    peaks : Peaks
        The device.
    tp : int
        Degree of tensor parallelism.
    """
    if not images:
        return 0.0
    wide = tower.split(tp)
    sizes = [math.prod(tower.grid(image)) for image in images]
    patches = sum(sizes)
    seen = min(patches, (tower.window // tower.patch) ** 2) if tower.window else 0
    near = tower.layers - tower.full_layers if tower.window else 0
    pairs = near * sum(n * min(n, seen) for n in sizes) + (tower.layers - near) * sum(n * n for n in sizes)
    block = tower.weights - tower.projector - tower.further
    rows = 2 * (patches * block + patches / tower.merge**2 * tower.projector) / wide
    computed = rows / (MATRICES * peaks.flops) + 4 * pairs * tower.hidden / wide / (ATTENTION * peaks.flops)
    # Each layer reads and writes its rows about a dozen times, 16 bits a number.
    moved = tower.layers * patches * 2 * (8 * tower.hidden + (2 + tower.gated) * tower.ffn / wide)
    device = computed + (moved + 2 * tower.weights / wide) / (peaks.efficiency * peaks.bandwidth_bytes_per_s)
    return max(device, tower.layers * KERNELS * EAGER_LAUNCH_S)
