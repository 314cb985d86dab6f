"""Tells whether numba is compiling kernels in this process right now.

Progress lines ask it: while kernels are compiled nothing else moves, and a reader should know why.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["ABOUT_S", "SAID", "TELLS", "announce", "compiling_s", "said", "voice", "watched"]

SAID = "compiling once for this machine"
"""What a progress line says while kernels are being compiled."""

ABOUT_S = {
    "planners.alpa": 3, "planners.alpaserve": 4, "planners.graphpipe": 2, "planners.pipedream": 1,
    "planners.piper": 3, "planners.stages": 3, "planners.terapipe": 2, "planners.themis": 8,
    "profiles.llm": 2, "simulator": 0, "simulator.llm": 8, "simulator.serving": 5, "simulator.sharing": 4,
    "simulator.training": 3,
}  # fmt: skip
"""Rough seconds that it takes to compile all kernels of a room, on one core of a current server. They
only tell a reader how long to wait."""

TELLS = "MESHWRIGHT_TELLS_COMPILING"
"""Environment variable: "1" in a worker process that should announce compilation. Of several workers, one does."""

GAP_S = 1.0
"""Kernels compiled one after the other, with pauses no longer than this, count as one wait. A guess: numba's own pauses
between kernels are far shorter."""

_lock = threading.Lock()
_state: dict[str, float] = {"depth": 0, "since": 0.0, "ended": 0.0}
_rooms: set[str] = set()
"""Rooms whose kernels have been compiled during the current wait."""
_watchers: list[None] = []
"""One entry for each progress line that is shown now; these lines announce the compilation themselves."""
_listening = threading.Event()


def compiling_s() -> float:
    """Seconds since the current wait for numba began; 0 if it is not compiling anything.

    Kernels that numba finds in its cache do not count. This imports nothing: if numba has not been imported yet,
    nothing is being compiled.
    """
    if not _listening.is_set():
        _listen()
    with _lock:
        return time.monotonic() - _state["since"] if _state["depth"] > 0 else 0.0


def said() -> str:
    """What a progress line should say now, with the expected seconds if they are known."""
    with _lock:
        about = sum(ABOUT_S[room] for room in _rooms)
    return f"{SAID}, about {about} s" if about else SAID


@contextmanager
def watched() -> Generator[None, None, None]:
    """Context manager for work that shows its own progress line, which then announces compilation itself."""
    _watchers.append(None)
    try:
        yield
    finally:
        _watchers.pop()


@contextmanager
def voice(after_s: float = 2.0) -> Generator[None, None, None]:
    """Context manager for a verb: announces compilation on standard error if it takes longer than `after_s`.

    It stays silent while a progress line is shown, and prints at most once.
    """
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            if compiling_s() > after_s and not _watchers:
                print(said(), file=sys.stderr, flush=True)
                return

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def announce(after_s: float = 2.0) -> None:
    """Announce once, on standard error, that this process has been compiling for `after_s`; for worker processes."""

    def wait() -> None:
        while compiling_s() < after_s:
            time.sleep(0.1)  # often enough for a notice after seconds, too seldom to slow the compiler
        print(said(), file=sys.stderr, flush=True)

    threading.Thread(target=wait, daemon=True).start()


def _room(event: Any) -> list[str]:
    """The room of the kernel that an event is about; empty if the kernel is not one of ours."""
    function: Any = event.data["dispatcher"].py_func
    module = str(function.__module__ or "").removeprefix("meshwright.")
    return [room for room in ABOUT_S if module == room or module.startswith(f"{room}.")]


def _listen() -> None:
    """Listen to numba's compilation events from now on, if numba has been imported."""
    event: Any = sys.modules.get("numba.core.event")
    if not hasattr(event, "Listener"):  # None, or another thread is importing it: this class comes after `register`
        return
    with _lock:
        if _listening.is_set():
            return
        _listening.set()

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            with _lock:
                now = time.monotonic()
                if _state["depth"] == 0 and now - _state["ended"] > GAP_S:
                    _state["since"] = now
                    _rooms.clear()
                _rooms.update(_room(event))
                _state["depth"] += 1

        def on_end(self, event: Any) -> None:
            with _lock:
                _state["depth"] = max(_state["depth"] - 1, 0)
                _state["ended"] = time.monotonic()

    event.register("numba:compile", Listener())
