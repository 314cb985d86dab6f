"""What vLLM does where nobody says: budgets by the device's memory, asynchronous scheduling by the version."""

from __future__ import annotations

import re

from ...profiles.llm.engine_memory import RUNTIME_BYTES, budgets, other_bytes

__all__ = ["GIB", "RUNTIME_BYTES", "asynchronous", "budgets", "device_memory", "other_bytes", "version_in"]

GIB = 2**30

ASYNC_SINCE = (0, 14)
"""First version of vLLM that schedules asynchronously unless told not to."""

MEMORY_GIB = {
    "RTX PRO 6000": 95.6,
    "RTX 6000 Ada": 48.0,
    "RTX A6000": 48.0,
    "RTX A5000": 24.0,
    "RTX 5090": 31.8,
    "RTX 4090": 24.0,
    "RTX 3090": 24.0,
    "GB200": 184.0,
    "B200": 178.4,
    "H200": 140.4,
    "H100": 79.6,
    "A100-SXM4-40": 39.6,
    "A100": 79.3,
    "L40S": 45.0,
    "L40": 45.0,
    "L4": 22.5,
    "A10G": 22.5,
    "V100": 31.7,
}
"""Memory that devices report, GiB, by a part of their names: longer names first."""


def device_memory(name: str) -> int:
    """Bytes of memory of a device whose name contains one that is known; 0 if none does."""
    said = name.lower()
    for part in sorted(MEMORY_GIB, key=len, reverse=True):
        if all(word in said for word in part.lower().split()):
            return int(MEMORY_GIB[part] * GIB)
    return 0


def asynchronous(version: str, pp: int = 1) -> bool:
    """Whether a version schedules asynchronously by default; an unknown one is taken for one of today.

    A pipeline turns it off.
    """
    found = version_in(version)
    return pp == 1 and (found is None or found >= ASYNC_SINCE)


def version_in(text: str) -> tuple[int, int] | None:
    """The first two numbers of a version somewhere in a text."""
    found = re.search(r"\b(\d+)\.(\d+)(?:\.\d+)?", text)
    return None if found is None else (int(found[1]), int(found[2]))
