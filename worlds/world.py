"""What a world gives to studies: what a case of it may say, how one is evaluated, and what is drawn of one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict

from ..errors import InputError
from .names import check_names
from .outcome import Outcome

__all__ = ["CIRCUMSTANCE", "WORLDS", "Case", "Circumstance", "Panel", "World", "world"]


@dataclass(frozen=True, slots=True)
class Circumstance:
    """Marks a field, or a whole section, that we meet and do not choose: traffic, deadlines, prices, failures.

    ``workload: Annotated[Workload, CIRCUMSTANCE]``. What is not marked is a decision: devices, planner, batching.
    Decisions are compared under the same circumstances.
    """


CIRCUMSTANCE = Circumstance()


class Case(BaseModel):
    """Base of what one point says in full: frozen, no unknown keys, no NaN or infinity.

    Every world's case has a `seed`; a study's replications count it up.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: Annotated[int, CIRCUMSTANCE] = 0

    def identity(self) -> dict[str, Any]:
        """Plain data that tells this case from any other; the order of keys has no meaning in it."""
        return self.model_dump(mode="json")


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
    """One simulated world, as studies see it. All methods are pure functions of their arguments.

    Axes, designs, questions, stores, executors and reports know a world by this alone: by the fields of its cases and
    the names of its metrics. docs/studies-worlds.md shows a whole one in thirty lines.

    Attributes
    ----------
    name : str
        What study files call it.
    case : type
        A `Case` whose fields are all that a point can say. Every path through it is an axis. It has a field `planner`
        with a `name`, and questions look for `cluster.devices`, `cluster.device`, `cluster.price_per_hour` and for
        `workload.rate_scale`, `workload.cv_scale`, `workload.slo` and `workload.slo_scale` where they apply. A field
        that says what the world does to us, and not what we decide, is marked `CIRCUMSTANCE`.
    metrics : mapping of str to str
        Every metric that `evaluate` can give -> what it says, with its unit. No metric has the name of a field, nor of
        a field's last word, nor of a column of a study's tables (`names.check_names`).
    """

    name: str
    case: type[Case]
    metrics: Mapping[str, str]

    def share(self, cases: Sequence[Case], folder: Path) -> Any:
        """Load and check what the points of a study share: profiles, traces, plans, planners.

        Called once, in the driver; the answer travels once to every worker, so it can be pickled. Files that cases
        name are relative to `folder`.

        Parameters
        ----------
        cases : sequence of Case
            Under each planner the base case, in two replications where there are several, and under each value of an
            axis; then the ends of what questions try.

        Raises
        ------
        InputError
            If anything that a case names is missing or wrong; before any work. A line for each problem, which begins
            with the path of the field that it is about: ``workload.trace: …``.
        """
        ...

    def digests(self, case: Case, shared: Any) -> Mapping[str, str]:
        """Provenance of a case beyond its text: name of a file or set that it reads -> SHA-256 of the content.

        With the case it identifies a point: where both are the same, so is the outcome.
        """
        ...

    def evaluate(self, case: Case, shared: Any) -> Outcome:
        """Plan and score one case. The same case and shared data give the same outcome on any machine.

        A case without a plan is an outcome with status ``infeasible``; an error that is raised becomes a failed row.
        Random numbers come from the case's seed, from named streams (`meshwright.seeds`), so that replications are
        compared on common random numbers. Nothing of clock, host or process may enter.
        """
        ...

    def panels(self, case: Case, shared: Any) -> Sequence[Panel]:
        """Draw one case: what was decided, its worst moments, its utilisation. May be empty."""
        ...


WORLDS = {"serving": ".serving", "llm": ".llm", "sharing": ".sharing"}
"""Name of a world -> its module (relative to this package, or absolute), which holds one object of it as `WORLD`."""


def world(name: str) -> World:
    """The world of that name, whose names of metrics and fields are checked.

    Raises
    ------
    InputError
        If there is none, or its metrics and fields have the same names.
    """
    if name not in WORLDS:
        raise InputError(f"world: unknown world {name!r}; expected one of {', '.join(WORLDS)}")
    found = cast(World, importlib.import_module(WORLDS[name], __package__).WORLD)
    check_names(found)
    return found
