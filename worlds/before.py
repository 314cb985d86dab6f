"""What a door is asked is looked at before any work: targets that nobody can write, or that are not there."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ..errors import InputError
from ..files import check_target
from ..wording import nearest
from .door import DoorName, Options, Written
from .export import folder_of
from .world import OpenWorld

__all__ = ["check_asked", "check_number"]


def check_asked(world: OpenWorld, verb: DoorName, options: Options, out: Path | None) -> None:
    """Refuse what can be known to fail before anything is planned, measured or started.

    Raises
    ------
    InputError
        On files that cannot be written, and on exports without a target that the world knows, or without a folder.
    """
    if verb == "export":
        _check_export(world, str(getattr(options, "to", "")), out)
    elif out is not None and not world.doors[verb].folder:
        check_target(out)
    for name, field in type(options).model_fields.items():
        path = getattr(options, name)
        if path is not None and any(isinstance(mark, Written) for mark in field.metadata):
            check_target(path)


def _check_export(world: OpenWorld, to: str, out: Path | None) -> None:
    if not to:
        raise InputError(f"export: --to is missing; expected one of {', '.join(world.exports)}")
    if to not in world.exports:
        near = nearest(to, world.exports)
        hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(world.exports)}"
        raise InputError(f"export: unknown target {to!r}; {hint}")
    folder_of(out)


def check_number(world: OpenWorld, verb: DoorName, options: Options, plans: Collection[str]) -> None:
    """Refuse several plans where one is taken, or shown, before any of them is made.

    Parameters
    ----------
    world : OpenWorld
        Whose door is asked.
    verb : str
        The door.
    options : Options
        Of the door.
    plans : collection of str
        Names of the plans, or of the planners that would make them.

    Raises
    ------
    InputError
        Naming the option that shows one alone.
    """
    if len(plans) < 2:
        return
    if world.doors[verb].one:
        raise InputError(f"expected one plan (got {len(plans)})")
    for name in world.doors[verb].shows_one:
        if getattr(options, name) is not None:
            raise InputError(f"{name}: shows one plan (got {len(plans)})")
