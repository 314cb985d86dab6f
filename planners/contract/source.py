"""`PlannerSource`: a planner by name, so that it can be found here and again in another process."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, cast

from ...errors import InputError
from ...profiles.profile import ModelProfile
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.serving.plan.file import Plan
from ...traces.trace import Trace
from ...wording import nearest
from ..alpaserve.clockwork import ScheduledPlan, clockwork_pp
from . import door, installed
from . import file as planner_file
from .problem import Problem
from .shipped import OPTIONS, PLANNERS

__all__ = ["PlannerSource", "split_names"]

COMMON = ("dispatch", "admission", "overhead", "seed", "progress", "breakdowns", "max_batch")
"""What every shipped planner is told by the problem, not by its options."""

JUDGED_IN_BATCHES = ("drawn_", "failures_", "survive_", "attainment_of_usual")
"""How metrics begin that a shipped planner predicts in batches too, where the problem has them."""


@dataclass(frozen=True, slots=True, repr=False)
class PlannerSource(Shown):
    """A planner that can travel to a worker: a name that is installed there too, or the text of a file.

    Make one with `find`.

    Parameters
    ----------
    name : str
        What the user said.
    code : str
        Text of the planner's file; empty for a planner that is installed.
    digest : str
        SHA-256 of what plans: of `code`, or of the installed package's name, version and module. Empty for a shipped
        planner, which the version of Meshwright stands for.
    """

    name: str
    code: str = ""
    digest: str = ""

    @classmethod
    def find(cls, name: str, folder: Path | None = None) -> PlannerSource:
        """Look a planner up: shipped, by entry point, or ``path/to/file.py:name`` relative to `folder`.

        A shipped name always means the shipped planner. The planner is loaded, so that what is wrong with it is said
        before any work starts.

        Parameters
        ----------
        name : str
            The name.
        folder : Path, optional
            Where relative paths begin; by default the working folder.

        Raises
        ------
        InputError
            If there is no such planner (names the nearest), or it cannot be loaded.
        """
        if name in PLANNERS:
            return cls(name)
        if planner_file.split(name) is not None:
            code = planner_file.read(name, folder or Path())
            source = cls(name, code, hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest())
        elif name in installed.names():
            source = cls(name, "", installed.digest_of(name))
        else:
            known = [*PLANNERS, *(other for other in installed.names() if other not in PLANNERS)]
            near = nearest(name, known)
            hint = f"; did you mean {near!r}?" if near else ""
            raise InputError(
                f"planner: unknown planner {name!r}; expected one of {', '.join(known)}, or {planner_file.FORM}{hint}"
            )
        door.check_signature(source.function(), name)
        return source

    @property
    def shipped(self) -> bool:
        """Whether the planner comes with Meshwright."""
        return self.name in PLANNERS

    @property
    def schedules(self) -> bool:
        """Whether its placement is known to change over time; of a planner from outside nothing is known before."""
        return self.shipped and PLANNERS[self.name] is clockwork_pp

    def function(self) -> Callable[..., object]:
        """The planner itself; loaded once in a process.

        Raises
        ------
        InputError
            If it cannot be loaded here.
        """
        if self.shipped:
            return PLANNERS[self.name]
        if planner_file.split(self.name) is not None:
            return cast("Callable[..., object]", planner_file.function_of(self.name, self.code))
        return cast("Callable[..., object]", installed.function_of(self.name, self.digest))

    def check_options(self, options: Mapping[str, Any], where: str = "options") -> None:
        """Refuse options that the planner does not have, before any work.

        A planner from outside whose signature names no options may still read ``problem.options``: then an option
        that it did not read is refused when it has planned.

        Raises
        ------
        InputError
            Beginning with `where`; names the nearest option.
        """
        known = _shipped_options(self.name) if self.shipped else door.option_names(self.function())
        for option in options:
            if self.shipped and option in COMMON:
                raise InputError(
                    f"{where}: {option!r} is no option of planner {self.name!r} but part of the problem; set it there"
                )
        if known is not None:
            door.refuse_options(options, known, self.name, where)

    def plan(
        self, problem: Problem, progress: Callable[[str], None] | None = None, where: str = "options"
    ) -> Plan | ScheduledPlan:
        """Run the planner on a problem.

        Parameters
        ----------
        problem : Problem
            What to plan.
        progress : callable, optional
            Called with a line of text now and then.
        where : str
            Where options come from, for errors.

        Returns
        -------
        Plan
            Or a ScheduledPlan, whose placement changes over time. For this cluster and these models, within memory.

        Raises
        ------
        InputError
            If an option is unknown, or a planner from outside returns no plan for this problem.
        InfeasibleError
            If there is no plan.
        RunError
            If a planner from outside fails; says in which line.
        """
        if not self.shipped:
            return door.call(self.function(), problem, self.name, progress=progress, where=where)
        self.check_options(problem.options, where)
        p = problem
        takes = inspect.signature(PLANNERS[self.name]).parameters
        told = {name: getattr(p, name) for name in ("breakdowns", "max_batch") if name in takes}
        found = PLANNERS[self.name](
            p.cluster, p.models, p.trace, p.profiles, dispatch=p.dispatch, admission=p.admission, overhead=p.overhead,
            seed=p.seed, progress=progress, **told, **p.options,
        )  # fmt: skip
        if p.max_batch == 1:
            return found
        # The shipped planners search without batching; what they decided is predicted as it will be served.
        entry = found.planner
        plan = p.plan(
            found.placement, name=entry.name, options=entry.options, evaluations=entry.evaluations,
            seconds=entry.seconds,
        )  # fmt: skip
        judged = {name: value for name, value in found.predicted.items() if name.startswith(JUDGED_IN_BATCHES)}
        if isinstance(plan, ScheduledPlan) or not judged:
            return plan
        return plan.model_copy(update={"predicted": {**plan.predicted, **judged}})

    def as_function(self) -> Callable[..., Plan | ScheduledPlan]:
        """The planner, called as the shipped ones are: ``planner(cluster, models, trace, profiles, **options)``."""
        return PLANNERS[self.name] if self.shipped else partial(_called, self)


def _called(
    source: PlannerSource,
    cluster: Cluster,
    models: Any,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Plan | ScheduledPlan:
    """A planner from outside, called as the shipped ones are: what is part of the problem is told from its options."""
    said = {name: options.pop(name) for name in COMMON if name in options}
    if said.get("overhead") is None:
        said["overhead"] = float(getattr(profiles, "overhead_s", 0.0))
    names = getattr(trace, "models", ()) if models is None else models
    return source.plan(Problem(cluster, names, trace, profiles, options=options, **said), progress)


def split_names(text: str) -> list[str]:
    """The planners of ``"alpaserve,a/b.py:plan"``; a comma in the name of a file that exists separates nothing."""
    if (file := planner_file.split(text)) is not None and "," in file[0] and Path(file[0]).is_file():
        return [text.strip()]
    return [name.strip() for name in text.split(",")]


def _shipped_options(name: str) -> list[str]:
    """Options of a shipped planner: its own keywords, and the fields of what it takes by name."""
    own = [n for n, p in inspect.signature(PLANNERS[name]).parameters.items() if p.kind == p.KEYWORD_ONLY]
    known = dict.fromkeys([*own, *(f.name for f in fields(OPTIONS[name]))])
    return [n for n in known if n not in COMMON]
