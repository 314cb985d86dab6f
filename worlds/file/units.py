"""Values with units, read at the door: "13 GiB", "99 %", "10 min", "2 GPU h", "25 GB/s"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["PATTERNS", "parse_bandwidth", "parse_bytes", "parse_fraction", "parse_gpu_seconds", "parse_seconds"]

UNITS = {
    "B": 1,
    **{f"{p}B": 1000**k for k, p in enumerate("kMGT", 1)},
    **{f"{p}iB": 1024**k for k, p in enumerate("KMGT", 1)},
}

TIMES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
NUMBER = r"(\d+(?:\.\d+)?)"
BYTES = rf"\s*{NUMBER}\s*([kKMGT]?i?B)\s*"
BANDWIDTH = rf"\s*{NUMBER}\s*([kKMGT]?i?(?:B|b|bit))/s\s*"
FRACTION = rf"\s*{NUMBER}\s*%\s*"
SECONDS = rf"\s*(-?{NUMBER[1:]}\s*(s|min|h|d)\s*"
GPU_SECONDS = rf"\s*(-?{NUMBER[1:]}\s*GPU[ -]?(s|min|h|d)\s*"


def parse_bytes(value: Any) -> Any:
    """``"13 GiB"`` -> bytes; anything but text as it is.

    Raises
    ------
    ValueError
        On text that is no size.
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(BYTES, value)
    if match is None or match[2] not in UNITS:
        raise ValueError(f"expected bytes, such as 13 GiB or 16 GB (got {value!r})")
    return round(float(match[1]) * UNITS[match[2]])


def parse_bandwidth(value: Any) -> Any:
    """``"25 GB/s"``, or ``"200 Gbit/s"`` -> bytes per second; anything but text as it is.

    Raises
    ------
    ValueError
        On text that is no bandwidth.
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(BANDWIDTH, value)
    prefix, unit = ("", "") if match is None else (re.sub("(B|b|bit)$", "", match[2]), match[2])
    if match is None or f"{prefix}B" not in UNITS:
        raise ValueError(f"expected bytes per second, such as 25 GB/s, 300 GiB/s or 200 Gbit/s (got {value!r})")
    return float(match[1]) * UNITS[f"{prefix}B"] / (1 if unit.endswith("B") else 8)


def parse_fraction(value: Any) -> Any:
    """``"99 %"`` -> 0.99; anything but text as it is.

    Raises
    ------
    ValueError
        On text that is no percentage.
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(FRACTION, value)
    if match is None:
        raise ValueError(f"expected a fraction such as 0.99, or 99 % (got {value!r})")
    return float(match[1]) / 100


def parse_seconds(value: Any) -> Any:
    """``"10 min"`` -> 600.0; anything but text as it is.

    Raises
    ------
    ValueError
        On text that is no time.
    """
    return _time(value, SECONDS, "expected seconds, or a time such as 90 s, 10 min, 3.5 h or 14 d")


def parse_gpu_seconds(value: Any) -> Any:
    """``"2 GPU h"`` -> 7200.0 GPU seconds; anything but text as it is.

    Raises
    ------
    ValueError
        On text that is no GPU time.
    """
    return _time(value, GPU_SECONDS, "expected GPU seconds, or GPU time such as 30 GPU min, 8 GPU h or 11.5 GPU d")


def _time(value: Any, form: str, expected: str) -> Any:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(form, value)
    if match is None:
        raise ValueError(f"{expected} (got {value!r})")
    return float(match[1]) * TIMES[match[2]]


PATTERNS: Mapping[Callable[[Any], Any], str] = MappingProxyType(
    {
        parse_bandwidth: f"^{BANDWIDTH}$", parse_bytes: f"^{BYTES}$", parse_fraction: f"^{FRACTION}$",
        parse_seconds: f"^{SECONDS}$", parse_gpu_seconds: f"^{GPU_SECONDS}$",
    }
)  # fmt: skip
"""Reader -> what the text that it takes looks like, as a regular expression of JSON Schema."""
