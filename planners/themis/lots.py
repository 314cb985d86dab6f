"""Lots: see `simulator.sharing.policy.lots`, whose baselines draw them too."""

from __future__ import annotations

from ...simulator.sharing.compiled.lots import lot_kernel
from ...simulator.sharing.policy.lots import lot, share_of_lot

__all__ = ["lot", "lot_kernel", "share_of_lot"]
