"""What worlds say in the same way: tables for people, means with intervals, JSON for machines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["interval", "plain_json", "table"]


def table(frame: pd.DataFrame) -> str:
    """A frame as text: four digits, no index, ``-`` where nothing is known."""
    return frame.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.4g}")


def interval(mean: float, half_width: float) -> str:
    """A mean with half its interval, with as many decimals as two digits of that need: ``99.22 ± 0.48``."""
    if not math.isfinite(mean):
        return "-"
    if not math.isfinite(half_width):
        return f"{mean:.4g}"
    places = 2 if half_width <= 0 else min(max(1 - math.floor(math.log10(half_width)), 0), 4)
    return f"{mean:.{places}f} ± {half_width:.{places}f}"


def plain_json(value: Any) -> Any:
    """A value as JSON can say it; what it has no word for (NaN, infinity) becomes null."""
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
