"""Whether kernels are being compiled in this process at the moment, for progress lines that would else stand still."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

__all__ = ["SAID", "TELLS", "announce", "compiling_s"]

SAID = "compiling once for this machine"
"""What a progress line says meanwhile."""

TELLS = "MESHWRIGHT_TELLS_COMPILING"
"""Environment variable: "1" where a worker process is to say it, because people watch; of several, one does."""

GAP_S = 1.0
"""Kernels that are compiled one after the other, with no longer pauses, are one wait."""

_lock = threading.Lock()
_state: dict[str, float] = {"depth": 0, "since": 0.0, "ended": 0.0}
_listening = threading.Event()


def compiling_s() -> float:
    """Seconds since numba began to compile what it compiles now; 0 if it compiles nothing.

    What numba finds in its cache is not compiled. Nothing is imported for this: without numba nothing is compiled.
    """
    if not _listening.is_set():
        _listen()
    with _lock:
        return time.monotonic() - _state["since"] if _state["depth"] > 0 else 0.0


def announce(after_s: float = 2.0) -> None:
    """Say it on standard error once, when this process has compiled for so long: for a worker, whom nobody watches."""

    def wait() -> None:
        while compiling_s() < after_s:
            time.sleep(0.1)
        print(SAID, file=sys.stderr, flush=True)

    threading.Thread(target=wait, daemon=True).start()


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
                _state["depth"] += 1

        def on_end(self, event: Any) -> None:
            with _lock:
                _state["depth"] = max(_state["depth"] - 1, 0)
                _state["ended"] = time.monotonic()

    event.register("numba:compile", Listener())
