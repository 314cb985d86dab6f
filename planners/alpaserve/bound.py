"""An upper bound on the attainment of any placement of an instance."""

from __future__ import annotations

import numpy as np

from .instance import Instance

__all__ = ["upper_bound"]


def upper_bound(instance: Instance) -> float:
    """Attainment that no placement exceeds."""
    total = instance.total_latency()
    best = np.where(instance.fits, total, np.inf).min(axis=0)
    return float(np.mean(best[instance.model] <= instance.slo + 2e-9))
