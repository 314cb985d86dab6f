"""Meshwright: plan how to spread models over GPUs, simulate the plan, run it for real, and compare.

Begin with `case`, `plan` and `load`, the three functions of the public face. The other names are rooms (packages).

Nothing is imported before it is used: ``import meshwright`` is quick, ``meshwright.simulator`` loads its room when it
is first named, and ``dir(meshwright)`` lists everything there is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import InfeasibleError, InputError, MeshwrightError, OutOfProfileError
    from .worlds.faces import case, load, plan

__version__ = "0.1.0"

_ROOMS = ("errors", "gate", "planners", "profiles", "reproduce", "runtime", "simulator", "studies", "traces", "worlds")

_NAMES = {
    "InfeasibleError": "errors",
    "InputError": "errors",
    "MeshwrightError": "errors",
    "OutOfProfileError": "errors",
    "case": "worlds.faces",
    "load": "worlds.faces",
    "plan": "worlds.faces",
}
"""Each name of the public face, and the module that defines it."""

__all__ = [
    "InfeasibleError",
    "InputError",
    "MeshwrightError",
    "OutOfProfileError",
    "__version__",
    "case",
    "load",
    "plan",
]
# `from meshwright import *` takes these names only. Importing all rooms as well would take seconds.


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name in _NAMES:
        found = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
        globals()[name] = found  # the next look finds it without coming here
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__dir__())}")


def __dir__() -> list[str]:
    return sorted((*_ROOMS, *_NAMES, "__version__"))
