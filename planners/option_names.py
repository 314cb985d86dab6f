"""`options_from`: a planner's options from a mapping of names, the nearest name said where one is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

from ..errors import InputError
from ..wording import nearest

__all__ = ["options_from"]

T = TypeVar("T")


def options_from(cls: type[T], options: T | Mapping[str, Any] | None, where: str) -> T:
    """Make the options dataclass `cls` from whatever the caller gave.

    None gives the defaults, an instance of `cls` is returned as it is, and a mapping is read name by name. A ``-`` in a
    name is read as ``_``, because that is how names are written on the command line.

    Raises
    ------
    InputError
        On an unknown name. The message begins with `where` and suggests the nearest known name.
    """
    if options is None:
        return cls()
    if isinstance(options, cls):
        return options
    named = cast("Mapping[str, Any]", options)
    given = {str(name).replace("-", "_"): value for name, value in named.items()}
    known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"
            raise InputError(f"{where}: unknown option {name!r}; {hint}")
    return cls(**given)
