"""A line of progress on standard error for work that takes more than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["status"]

QUIET_S = 2.0
EVERY_S = {True: 0.1, False: 5.0}
"""Seconds between two lines, on a terminal and elsewhere."""


@contextmanager
def status(label: str) -> Iterator[Callable[[str], None]]:
    """A callback that shows what is being done: one line, overwritten, on a terminal; elsewhere a line now and then."""
    terminal = sys.stderr.isatty()
    begun = shown = time.monotonic()
    wrote = False

    def say(what: str) -> None:
        nonlocal shown, wrote
        now = time.monotonic()
        if now - begun < QUIET_S or (wrote and now - shown < EVERY_S[terminal]):
            return
        shown, wrote = now, True
        line = f"{label}: {what} ({now - begun:.0f} s)"
        print(f"\r\x1b[2K{line[:118]}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)

    try:
        yield say
    finally:
        if terminal and wrote:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
