"""Means over repetitions, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .report import Frame

__all__ = ["half_width", "summarise"]


def half_width(values: npt.ArrayLike, level: float = 0.95) -> float:
    """Half the width of Student's confidence interval of the mean; NaN for fewer than two values."""
    from scipy import stats

    x = np.asarray(values, dtype=np.float64)
    if len(x) < 2:
        return float("nan")
    return float(stats.t.ppf(0.5 + level / 2, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))


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
