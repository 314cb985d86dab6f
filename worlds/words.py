"""What worlds say in the same way: tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["table"]


def table(frame: pd.DataFrame) -> str:
    """A frame as text: four digits, no index, ``-`` where nothing is known."""
    return frame.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.4g}")
