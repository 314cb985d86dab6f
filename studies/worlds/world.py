"""What a world gives to studies: what a case of it may say, how one is evaluated, and what is drawn of one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict

from ...errors import InputError
from ..outcome import Outcome

__all__ = ["WORLDS", "Case", "Panel", "World", "world"]


class Case(BaseModel):
    """Base of what one point says in full: frozen, no unknown keys, no NaN or infinity.

    Every world's case has a `seed`; a study's replications count it up.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: int = 0


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing of a case for the report.

    Parameters
    ----------
    title, caption : str
        Plain text.
    kind : {"svg", "html"}
        What `body` is.
    body : str
        A whole ``<svg>`` element, or an HTML fragment without scripts; text in it is escaped already.
    """

    title: str
    caption: str
    kind: Literal["svg", "html"]
    body: str


class World(Protocol):
    """One simulated world, as studies see it. All methods are pure functions of their arguments."""

    name: str
    case: type[Case]

    def share(self, cases: Sequence[Case], folder: Path) -> Any:
        """Load and check what the points of a study share: profiles, traces, plans, planners.

        Called once, in the driver; the answer travels once to every worker, so it can be pickled. `cases` are the
        base case under each planner and under each value of each axis; files they name are relative to `folder`.

        Raises
        ------
        InputError
            If anything that a case names is missing or wrong; before any work.
        """
        ...

    def digests(self, case: Case, shared: Any) -> Mapping[str, str]:
        """Provenance of a case beyond its text: name of a file or set that it reads -> SHA-256 of the content."""
        ...

    def evaluate(self, case: Case, shared: Any) -> Outcome:
        """Plan and score one case. The same case and shared data give the same outcome on any machine."""
        ...

    def panels(self, case: Case, shared: Any) -> Sequence[Panel]:
        """Draw one case: what was decided, its worst moments, its utilisation."""
        ...


WORLDS = {"serving": "serving"}
"""Name of a world -> its module here, which holds one object of that world's class as `WORLD`."""


def world(name: str) -> World:
    """The world of that name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in WORLDS:
        raise InputError(f"world: unknown world {name!r}; expected one of {', '.join(WORLDS)}")
    return cast(World, importlib.import_module(f".{WORLDS[name]}", __package__).WORLD)
