"""Number formats: how many bytes a weight has, and a cached key or value."""

from __future__ import annotations

import difflib

from ...errors import InputError

__all__ = ["PRECISION_BYTES", "WEIGHT_BITS", "precision_bytes", "weight_bytes"]

PRECISION_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "fp8": 1}
"""Bytes of one weight or one cached key or value."""

WEIGHT_BITS = {"int8": 8.0, "fp8_block": 8.002, "int4": 4.25, "nvfp4": 4.5, "mxfp4": 4.25}
"""Bits of one weight where weights alone are quantised, scales included: groups of 128 with 16-bit scales and 8-bit
zeros (rounded up), groups of 16 or 32 with 8-bit scales, blocks of 128 x 128 with 32-bit scales."""


def precision_bytes(precision: str) -> int:
    """Bytes of one number.

    Raises
    ------
    InputError
        On an unknown precision; names the nearest.
    """
    if precision not in PRECISION_BYTES:
        near = difflib.get_close_matches(str(precision), PRECISION_BYTES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(PRECISION_BYTES)}"
        raise InputError(f"precision: unknown precision {precision!r}; {hint}")
    return PRECISION_BYTES[precision]


def weight_bytes(precision: str) -> float:
    """Bytes of one weight, in precisions that weights alone may have too (`WEIGHT_BITS`, scales included).

    Raises
    ------
    InputError
        On an unknown precision; names the nearest.
    """
    return WEIGHT_BITS[precision] / 8 if precision in WEIGHT_BITS else precision_bytes(precision)
