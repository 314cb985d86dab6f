"""`later`: names of a package that load what defines them when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any

__all__ = ["later"]


def later(
    package: str, origins: Mapping[str, str], rooms: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose parts few need together.

    Type checkers do not see through this: give them the same names under ``if TYPE_CHECKING``.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    origins : mapping of str to str
        Name -> the module of the package that defines it. No module may have the name: once it is loaded, it would
        stand for what it defines.
    rooms : collection of str
        Modules of the package that can be named without an import of their own.
    """

    def found(name: str) -> Any:
        if name in rooms:
            return import_module(f".{name}", package)
        if name in origins:
            value = getattr(import_module(f".{origins[name]}", package), name)
            setattr(sys.modules[package], name, value)  # the next look finds it without coming here
            return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return found, lambda: sorted({*vars(sys.modules[package]), *origins, *rooms})
