"""`keep_freed_memory`: let freed memory stay with the process. What glibc gives back, it must fault in page by page.

A pass frees and asks for the same activations over and over. By default glibc maps blocks above 128 KiB one by one and
trims what is free at the heap's end; whether a tensor then costs its page faults depends on what was freed before it.
On a CPU core this made one and the same product take 0.2 or 0.8 ms.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

__all__ = ["keep_freed_memory"]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # malloc.h
KEPT_BYTES = 2**30
"""Free memory at the heap's end that is kept: more than the activations of any pass on a CPU here."""
MAPPED_FROM = 32 * 2**20
"""The most that glibc takes for the size from which blocks are mapped one by one."""


@cache
def keep_freed_memory() -> bool:
    """Ask glibc for it, once per process; whether it does (other C libraries do not know the request)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    return bool(mallopt(TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(MMAP_THRESHOLD, MAPPED_FROM))
