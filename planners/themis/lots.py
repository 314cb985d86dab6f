"""Lots: see `simulator.sharing.lots`, whose baselines draw them too."""

from __future__ import annotations

from ...simulator.sharing.kernels_lots import lot_kernel
from ...simulator.sharing.lots import lot, share_of_lot

__all__ = ["lot", "lot_kernel", "share_of_lot"]
