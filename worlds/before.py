"""Checks before any work: files that cannot be written, unknown export targets, runs that take longer than a week."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..files import check_target
from ..wording import nearest
from .door import Asked, DoorName, Options, Written
from .world import OpenWorld

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..simulator.plan.file import PlanFile

__all__ = ["check_asked", "check_number", "check_real_time", "folder_of", "one_plan"]

LONGEST_S = 7 * 86_400.0
"""Seconds from the first request of a real run to the last; a week. Traffic that is longer is simulated."""

MOST_REQUESTS = 10_000_000
"""Requests of a real run; a guess at what one controller can send in a week."""


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


def check_real_time(arrivals: npt.NDArray[np.float64]) -> None:
    """Refuse traffic that nobody waits for: requests are sent when they arrive, on the clock of the wall.

    Raises
    ------
    InputError
        With the limits.
    """
    if len(arrivals) > MOST_REQUESTS:
        raise InputError(f"traffic: {len(arrivals):.3g} requests; a real run sends at most {MOST_REQUESTS:,}")
    last = float(arrivals.max()) if len(arrivals) else 0.0
    if last > LONGEST_S:
        raise InputError(
            f"traffic: the last request arrives after {last:.3g} s; a real run lasts at most {LONGEST_S:g} s: give "
            "fewer requests or a higher rate, or simulate it"
        )


def folder_of(out: Path | None) -> Path:
    """The folder that an export writes to.

    Raises
    ------
    InputError
        If nobody says any.
    """
    if out is None:
        raise InputError("export: --out is missing; say where: meshwright export PLAN --to TARGET --out FOLDER")
    return out


def one_plan(asked: Asked) -> PlanFile:
    """The plan of a door that takes one.

    Raises
    ------
    InputError
        If there are several.
    """
    if len(asked.plans) != 1:
        raise InputError(f"expected one plan (got {len(asked.plans)})")
    return next(iter(asked.plans.values()))
