"""What a world gives to studies: what a case of it may say, how one is evaluated, and what is drawn of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field

from ..reprs import Shown, value_text
from .door import Door, DoorName
from .limits import MAX_SEED
from .outcome import Outcome

if TYPE_CHECKING:
    from ..profiles.graph import Graph
    from ..profiles.graph.costs.measured.profile import TrainingProfile
    from ..profiles.measure.training import Asked as MeasureAsked
    from ..simulator.plan.file import PlanFile
    from .demo import DemoAsked
    from .demo import Shown as DemoShown
    from .faces import Planned
    from .need import Need

__all__ = ["CIRCUMSTANCE", "Case", "Circumstance", "OpenWorld", "Panel", "World"]


@dataclass(frozen=True, slots=True, repr=False)
class Circumstance(Shown):
    """Marks a field, or a whole section, that we meet and do not choose: traffic, deadlines, prices, failures.

    ``workload: Annotated[Workload, CIRCUMSTANCE]``. What is not marked is a decision: devices, planner, batching.
    Decisions are compared under the same circumstances.
    """


CIRCUMSTANCE = Circumstance()


class Case(Shown, BaseModel):
    """Base of what one point says in full: frozen, no unknown keys, no NaN or infinity.

    Every world's case has a `seed`; a study's replications count it up.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: Annotated[int, CIRCUMSTANCE] = Field(
        default=0, ge=0, le=MAX_SEED, description="of all that is drawn, a whole number"
    )

    def plan(self, *, folder: str | Path = ".", **options: Any) -> Planned:
        """Plan this case: `meshwright.worlds.faces.plan`."""
        from .faces import plan

        return plan(self, folder=folder, **options)

    def identity(self) -> dict[str, Any]:
        """Plain data that tells this case from any other; the order of keys has no meaning in it."""
        return self.model_dump(mode="json")

    def _headline(self) -> str:
        return ", ".join(f"{path}={value_text(value)}" for path, value in self.shown_rows())

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        """What somebody said, by path."""
        return list(_flat(self.model_dump(exclude_unset=True), ""))


def _flat(said: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    """Sections by the paths of what they hold."""
    for name, value in said.items():
        if isinstance(value, Mapping):
            yield from _flat(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


@dataclass(frozen=True, slots=True, repr=False)
class Panel(Shown):
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

    def share(self, cases: Sequence[Any], folder: Path) -> Any:
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

    def digests(self, case: Any, shared: Any) -> Mapping[str, str]:
        """Provenance of a case beyond its text: name of a file or set that it reads -> SHA-256 of the content.

        With the case it identifies a point: where both are the same, so is the outcome.
        """
        ...

    def evaluate(self, case: Any, shared: Any) -> Outcome:
        """Plan and score one case. The same case and shared data give the same outcome on any machine.

        A case without a plan is an outcome with status ``infeasible``; an error that is raised becomes a failed row.
        Random numbers come from the case's seed, from named streams (`meshwright.seeds`), so that replications are
        compared on common random numbers. Nothing of clock, host or process may enter.
        """
        ...

    def panels(self, case: Any, shared: Any) -> Sequence[Panel]:
        """Draw one case: what was decided, its worst moments, its utilisation. May be empty."""
        ...


class OpenWorld(World, Protocol):
    """A world whose plans are files: it has doors, besides what studies need of it.

    Attributes
    ----------
    title : str
        What it is about, in a line.
    plan_kinds : tuple of str
        What its plan files say as their ``kind`` (of multi-model plans: ``format``).
    essentials : tuple of str
        Paths of the fields that ``--help`` shows, on one screen; the others stand under ``--help-all``.
    doors : mapping of str to Door
        What can be asked; a door that is missing cannot.
    exports : mapping of str to str
        Target of the door `export` -> what is written for it.
    sample : mapping of str to value
        Path of a field -> its value in a case that works as it stands: what ``meshwright new`` begins with.
    examples : mapping of str to str
        Name -> file of a case that somebody wrote: of Meshwright's folder ``examples``, or an absolute path. May be
        left out.
    studies : mapping of str to str
        Name -> file of a study of its cases, of the same folder, that ``meshwright study --example`` prints. May be
        left out.
    """

    title: str
    plan_kinds: tuple[str, ...]
    essentials: tuple[str, ...]
    doors: Mapping[DoorName, Door]
    exports: Mapping[str, str]
    sample: Mapping[str, Any]
    examples: Mapping[str, str] = MappingProxyType({})
    studies: Mapping[str, str] = MappingProxyType({})

    def planners(self) -> Mapping[str, str]:
        """Name of each planner that comes with Meshwright, or that an installed package brings -> what it does."""
        ...

    def known(self, path: str) -> Iterable[str]:
        """Words that a field may say, for completion: models, devices, presets; empty where anything may stand."""
        ...

    def plan_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of this world's plan files; empty if it has none. May be left out."""
        return {}

    def settled(self, case: Any, folder: Path) -> Any:
        """The case with what files that it names say where nobody else does. May be left out.

        Parameters
        ----------
        case : Case
            What somebody said, checked by itself alone.
        folder : Path
            Files that the case names are relative to it.
        """
        return case

    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """Option of a door that takes a file of a form of its own -> the JSON Schema of such files. May be left out."""
        return {}

    def needs(self) -> Sequence[Need]:
        """What `meshwright doctor` tries of this world on a machine. May be left out."""
        return ()

    def at_work(
        self, profile: TrainingProfile, graph: Graph, asked: MeasureAsked, tell: Callable[[str], None]
    ) -> TrainingProfile:
        """A profile of measured operators with what a run of this world adds to it. May be left out.

        Parameters
        ----------
        profile : TrainingProfile
            Operators by themselves, and collectives.
        graph : Graph
            What was measured.
        asked : MeasureAsked
            How.
        tell : callable
            Called with a line that says what is being done.
        """
        return profile

    def demo(self, asked: DemoAsked) -> DemoShown | None:
        """What `meshwright demo` shows of this world: a script of cases. May be left out: None shows nothing."""
        return None

    def load(self, path: Path) -> PlanFile:
        """Read a plan file of this world.

        Raises
        ------
        InputError
            All that is wrong with it, each with its line.
        """
        ...

    def case_of(self, plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
        """The case that plans were made for, as plain data: what is simulated or run where nobody says otherwise.

        Parameters
        ----------
        plans : mapping of str to PlanFile
            By the name that tables call them; the first is asked where they differ. None at a door that needs none:
            what holds there where nobody says otherwise.
        said : mapping of str to value
            Path of a field -> value that is said now: what goes against it is left out.
        door : str
            What is asked: a real run has other defaults than a simulation.
        """
        ...
