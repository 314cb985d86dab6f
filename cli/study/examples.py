"""The study files that ship with the worlds, to start from."""

from __future__ import annotations

import difflib
from pathlib import Path

from ...errors import InputError
from ...worlds.registry import names, world

__all__ = ["example_text", "examples", "shipped"]


def examples() -> dict[str, str]:
    """Name -> file of each world's studies; the first is the one that is printed where nobody names any."""
    return {name: file for each in names() for name, file in getattr(world(each), "studies", {}).items()}


def example_text(name: str) -> str:
    """The text of an example; the first one if the name is empty.

    Raises
    ------
    InputError
        If there is none of that name; names the nearest.
    """
    found = examples()
    known = found | {Path(file).stem: file for file in found.values()}
    name = name or next(iter(found))
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the examples are {', '.join(found)}"
        raise InputError(f"--example: no example {name!r}; {hint}")
    return shipped(known[name])


def shipped(file: str) -> str:
    """The text of a file of `examples/`, which is shipped as data of the package; or of one that is elsewhere."""
    return (Path(__file__).resolve().parents[2] / "examples" / file).read_text(encoding="utf-8")
