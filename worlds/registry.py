"""Which worlds there are: those that come with Meshwright, and those that installed packages bring."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from ..errors import InputError
from ..files import readable
from ..wording import nearest
from .names import check_names
from .world import OpenWorld, World

__all__ = ["GROUP", "WORLDS", "names", "open_world", "titles", "world", "world_of_plan"]

GROUP = "meshwright.worlds"
"""Entry points of installed packages: ``name = "package.module"``; the module holds the world as `WORLD`."""

WORLDS = {
    "serving": "meshwright.worlds.serving.world",
    "llm": "meshwright.worlds.llm.world",
    "sharing": "meshwright.worlds.sharing.world",
    "training": "meshwright.worlds.training.world",
    "inference": "meshwright.worlds.inference.world",
}
"""Name of a world that comes with Meshwright -> its module, which holds one object of it as `WORLD`."""

HEAD = 4096
"""Bytes of a plan file in which its kind stands."""


def names() -> tuple[str, ...]:
    """All worlds: the shipped ones first."""
    return (*WORLDS, *(name for name in _brought() if name not in WORLDS))


def world(name: str) -> World:
    """The world of that name.

    Names of metrics and fields are checked in worlds from outside. Tests check them in the shipped ones: the check
    needs all of `studies`, which would cost each command more than half a second.

    Raises
    ------
    InputError
        If there is none, or its metrics and fields have the same names.
    """
    module = _module(name)
    found = cast(World, importlib.import_module(module).WORLD)
    if not module.startswith("meshwright."):
        check_names(found)
    return found


def open_world(name: str) -> OpenWorld:
    """The world of that name, if it has doors; those that only studies know have none.

    Raises
    ------
    InputError
        If there is none of that name, or it has no doors.
    """
    found = world(name)
    if not hasattr(found, "doors"):
        raise InputError(f"world {name!r}: has no doors; its cases can be studied: meshwright study")
    return cast(OpenWorld, found)


def titles(door: str = "") -> dict[str, str]:
    """Name of each world, or of each that has a door -> what it is about. Loads no world that comes with Meshwright."""
    found: dict[str, str] = {}
    for name in names():
        package = WORLDS.get(name, "").rpartition(".")[0]
        said: Any = importlib.import_module(package) if package else None
        if hasattr(said, "TITLE"):
            title, doors = said.TITLE, said.DOORS
        else:
            brought = world(name)
            title, doors = getattr(brought, "title", ""), getattr(brought, "doors", ())
        if not door or door in doors:
            found[name] = title
    return found


def world_of_plan(path: str | Path) -> OpenWorld:
    """The world whose plan a file is.

    Raises
    ------
    InputError
        If it cannot be read, or is no plan of any world.
    """
    try:
        content = readable(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read the plan: {error.strerror or error}") from None
    head = content[:HEAD].decode("utf-8", errors="replace")
    for name in _likely(head):
        found = importlib.import_module(_module(name)).WORLD
        if any(f'"{kind}"' in head for kind in getattr(found, "plan_kinds", ())):
            return open_world(name)
    from ..simulator.plan.reader import parsed

    parsed(content, str(path))  # what is no JSON is said with its line
    raise InputError(
        f"{path}: not a Meshwright plan of {', '.join(names())}; make one with: meshwright plan WORLD --out {path}"
    )


def _likely(head: str) -> Iterator[str]:
    """All worlds, those first that the beginning of a plan names: loading others, and looking for installed ones, takes
    a tenth of a second each."""
    yield from sorted(WORLDS, key=lambda name: name not in head)
    yield from names()[len(WORLDS) :]


def _module(name: str) -> str:
    if name in WORLDS:
        return WORLDS[name]
    brought = _brought()
    if name in brought:
        return brought[name]
    known = names()
    near = nearest(name, known)
    hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(known)}"
    raise InputError(f"world: unknown world {name!r}; {hint}")


def _brought() -> dict[str, str]:
    """Name of each world of an installed package -> its module. Who only needs shipped ones does not load this."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=GROUP)}
