"""Whether kernels are being compiled in this process at the moment, for progress lines that would else stand still."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["ABOUT_S", "SAID", "TELLS", "announce", "compiling_s", "said", "voice", "watched"]

SAID = "compiling once for this machine"
"""What a progress line says meanwhile."""

ABOUT_S = {
    "planners.alpa": 3, "planners.alpaserve": 4, "planners.graphpipe": 2, "planners.pipedream": 1,
    "planners.piper": 3, "planners.stages": 3, "planners.terapipe": 2, "planners.themis": 12,
    "profiles.llm": 2, "simulator.llm": 8, "simulator.serving": 5, "simulator.sharing": 8, "simulator.training": 3,
}  # fmt: skip
"""Round seconds that a room's kernels take to compile, all of them, on a core of a server of these years."""

TELLS = "MESHWRIGHT_TELLS_COMPILING"
"""Environment variable: "1" where a worker process is to say it, because people watch; of several, one does."""

GAP_S = 1.0
"""Kernels that are compiled one after the other, with no longer pauses, are one wait."""

_lock = threading.Lock()
_state: dict[str, float] = {"depth": 0, "since": 0.0, "ended": 0.0}
_rooms: set[str] = set()
"""Whose kernels this wait is about."""
_watchers: list[None] = []
"""Progress lines that are shown, which say it themselves."""
_listening = threading.Event()


def compiling_s() -> float:
    """Seconds since numba began to compile what it compiles now; 0 if it compiles nothing.

    What numba finds in its cache is not compiled. Nothing is imported for this: without numba nothing is compiled.
    """
    if not _listening.is_set():
        _listen()
    with _lock:
        return time.monotonic() - _state["since"] if _state["depth"] > 0 else 0.0


def said() -> str:
    """What a progress line says now: with the seconds that it takes, as far as is known by now."""
    with _lock:
        about = sum(ABOUT_S[room] for room in _rooms)
    return f"{SAID}, about {about} s" if about else SAID


@contextmanager
def watched() -> Generator[None, None, None]:
    """Around work that shows its own progress, and says there what is compiled."""
    _watchers.append(None)
    try:
        yield
    finally:
        _watchers.pop()


@contextmanager
def voice(after_s: float = 2.0) -> Generator[None, None, None]:
    """Around a verb: where it shows no progress, one line says that kernels have been compiled for so long."""
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
    """Say it on standard error once, when this process has compiled for so long: for a worker, whom nobody watches."""

    def wait() -> None:
        while compiling_s() < after_s:
            time.sleep(0.1)
        print(said(), file=sys.stderr, flush=True)

    threading.Thread(target=wait, daemon=True).start()


def _room(event: Any) -> list[str]:
    """The room of the kernel that an event is about, if it is one of ours."""
    function: Any = event.data["dispatcher"].py_func
    module = str(function.__module__ or "").removeprefix("meshwright.")
    return [room for room in ABOUT_S if module == room or module.startswith(f"{room}.")]


def _listen() -> None:
    """Hear of numba's compilations from now on, if numba is there by now."""
    event: Any = sys.modules.get("numba.core.event")
    if event is None or not hasattr(event, "register"):
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
