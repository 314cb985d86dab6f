"""Values with units, read at the door: "13 GiB", "99 %"."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["parse_bytes", "parse_fraction"]

UNITS = {
    "B": 1,
    **{f"{p}B": 1000**k for k, p in enumerate("kMGT", 1)},
    **{f"{p}iB": 1024**k for k, p in enumerate("KMGT", 1)},
}


def parse_bytes(value: Any) -> Any:
    """``"13 GiB"`` -> bytes; anything but text as it is.

    Raises
    ------
    ValueError
        On text that is no size.
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?i?B)\s*", value)
    if match is None or match[2] not in UNITS:
        raise ValueError(f"expected bytes, such as 13 GiB or 16 GB (got {value!r})")
    return round(float(match[1]) * UNITS[match[2]])


def parse_fraction(value: Any) -> Any:
    """``"99 %"`` -> 0.99; anything but text as it is.

    Raises
    ------
    ValueError
        On text that is no percentage.
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value)
    if match is None:
        raise ValueError(f"expected a fraction such as 0.99, or 99 % (got {value!r})")
    return float(match[1]) / 100
