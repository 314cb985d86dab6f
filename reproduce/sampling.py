"""Means over repetitions, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..simulator.metrics import mean_interval
from .report import Frame

__all__ = ["half_width", "summarise"]


def half_width(values: npt.ArrayLike) -> float:
    """Half the width of the 95 % confidence interval of the mean; NaN for a single value, or if one is not finite."""
    finite = bool(np.isfinite(values).all())
    return mean_interval(values).half_width if finite else float("nan")


def summarise(frame: Frame, by: Sequence[str], values: Sequence[str]) -> Frame:
    """Mean and 95 % half-width of the columns `values` over repetitions, one row per combination of `by`.

    The half-width of column ``x`` is in ``x_ci``; rows keep the order of first appearance.
    """
    groups = frame.groupby(list(by), sort=False)
    parts = {}
    for name in values:
        parts[name] = groups[name].mean()
        parts[f"{name}_ci"] = groups[name].apply(half_width)
    import pandas as pd

    return pd.DataFrame(parts).reset_index()
