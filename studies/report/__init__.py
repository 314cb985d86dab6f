"""The report of a study: one page that works offline, figures as PNG, tables as CSV and Parquet."""

from __future__ import annotations

from .write import write

__all__ = ["write"]
