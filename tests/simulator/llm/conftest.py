"""Kernel tables of a toy device, as fixtures (kernel_tables.py)."""

from __future__ import annotations

from kernel_tables import (
    gemm_rows,
    rows_file,
    silicon_columns,
    write_experts,
    write_layer_tables,
    write_run,
    write_tables,
)

__all__ = [
    "gemm_rows",
    "rows_file",
    "silicon_columns",
    "write_experts",
    "write_layer_tables",
    "write_run",
    "write_tables",
]
