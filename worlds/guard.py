"""`Guard`: a world as the gate sees it: what a planner decided, kept without its circumstances, scored and told apart.

The gate holds today's planners against a baseline. It asks a world for five things beyond the contract that studies
need, and `Guard` answers all of them from `World.evaluate` alone. A world that can answer better brings a guard of its
own (`World.guard`): one that scores an old plan again can tell a planner that got worse from a simulator that changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..errors import InfeasibleError, MeshwrightError
from .fields import set_fields
from .world import Case, World

__all__ = ["Decided", "Guard", "Measure", "Scores", "UnfitError", "differences", "guard_of"]

Scores = Mapping[str, tuple[float | None, ...]]
"""Metric -> its value under every seed; None where it has none (the mean latency of no request)."""

SHOWN = 6
"""Differences of two plans that are named one by one."""


class UnfitError(MeshwrightError):
    """A decision that cannot be carried out: it breaks memory, or uses devices or models that are not there."""


@dataclass(frozen=True, slots=True)
class Measure:
    """How a metric is judged and told.

    Parameters
    ----------
    more : bool
        Whether more of it is better.
    share : bool
        A share of something: told in per cent, and its tolerance is of the share as it is. Any other metric's is
        relative to the baseline's value.
    unit : str
        What people see behind the figure.
    scale : float
        What it is multiplied by for people.
    digits : int
        Digits behind the point.
    absent : str
        Why it may have no value.
    """

    more: bool
    share: bool = False
    unit: str = ""
    scale: float = 1.0
    digits: int = 3
    absent: str = "the simulation gives none"

    def told(self, value: float, sign: str = "") -> str:
        """A value without its unit; `sign` may be ``+``."""
        return f"{(100.0 if self.share else self.scale) * value:{sign}.{2 if self.share else self.digits}f}"

    @property
    def shown(self) -> str:
        """The unit with a space before it; nothing where there is none."""
        unit = "%" if self.share else self.unit
        return f" {unit}" if unit else ""


@dataclass(frozen=True, slots=True)
class Decided:
    """What a planner decided in a case.

    Parameters
    ----------
    plan : plain data
        The decision without its circumstances (no seconds, versions, predictions), as JSON can hold it. Two decisions
        are the same where their data are equal.
    evaluations : int
        What the planner says that it needed; 0 if it counts none.
    """

    plan: Any
    evaluations: int = 0


class Guard:
    """A world as the gate sees it; this one knows no more than `World.evaluate`.

    Attributes
    ----------
    measures : mapping of str to Measure
        Metrics that a case may be judged by; the first is the one if a suite names none. Empty: a suite says metric and
        direction.
    always : tuple of str
        Metrics that are compared whatever a case is judged by.
    scores_again : bool
        Whether `scores` carries out the plan that it is given. If not, it plans anew under each seed, and the gate
        compares with the scores that the baseline keeps.
    rivals : tuple of tuples of str
        Fields of which a case gives one: its own replaces a default of another one.
    """

    measures: ClassVar[Mapping[str, Measure]] = {}
    always: ClassVar[tuple[str, ...]] = ()
    scores_again: ClassVar[bool] = False
    rivals: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def case(self) -> type[Case]:
        """What a case says."""
        return self.world.case

    def complaints(self, case: Case) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """What a case says that has no meaning in a gate: where, and what."""
        return ()

    def draws(self, case: Case) -> bool:
        """Whether a score depends on the seed; if not, there is one exact score."""
        return True

    def replanned(self, case: Case, planner: str, folder: Path) -> Case:
        """The case planned by another planner; files that they name are looked for in the folder.

        Raises
        ------
        InputError
            If the world has no such planner.
        """
        changed = set_fields(case, {"planner": {"name": planner}})
        self.world.share([changed], folder)
        return changed

    def share(self, cases: Sequence[Case], folder: Path) -> Any:
        """What the cases need, loaded and checked: as `World.share`."""
        return self.world.share(cases, folder)

    def digests(self, case: Case, shared: Any) -> Mapping[str, str]:
        """SHA-256 of what a case reads: as `World.digests`."""
        return self.world.digests(case, shared)

    def check(self, plan: Any) -> None:
        """Refuse data that no decision of this world is.

        Raises
        ------
        InputError
            ``path: what is wrong``.
        """

    def decide(self, case: Case, shared: Any, foreign: bool = False) -> Decided:
        """Plan a case.

        Parameters
        ----------
        case : Case
            The case.
        shared : any
            What `share` gave.
        foreign : bool
            Whether the planner takes another one's place: options of the case that it does not know are left out.

        Raises
        ------
        InfeasibleError
            If there is no plan.
        UnfitError
            If the plan cannot be carried out.
        """
        outcome = self.world.evaluate(case, shared)
        if outcome.status != "ok":
            raise (InfeasibleError if outcome.status == "infeasible" else UnfitError)(outcome.error)
        return Decided(outcome.decision, int(outcome.metrics.get("evaluations", 0)))

    def scores(self, case: Case, plan: Any, shared: Any, seeds: Sequence[int]) -> Scores:
        """The metrics of a decision under each seed; pairs of two plans under one seed see the same random numbers.

        Raises
        ------
        UnfitError
            If the decision cannot be carried out.
        """
        names = tuple(self.measures) or tuple(self.world.metrics)
        found: dict[str, list[float | None]] = {name: [] for name in names}
        for seed in seeds:
            outcome = self.world.evaluate(set_fields(case, {"seed": seed}), shared)
            if outcome.status != "ok":
                raise UnfitError(outcome.error)
            for name in names:
                value = outcome.metrics.get(name, math.nan)
                found[name].append(value if math.isfinite(value) else None)
        return {name: tuple(values) for name, values in found.items()}

    def differ(self, old: Any, new: Any) -> str:
        """What was decided differently, in a sentence; empty exactly where the two are the same."""
        return differences(old, new)


def guard_of(world: World) -> Guard:
    """The world's own guard, or the one that knows `World.evaluate`."""
    make = getattr(world, "guard", None)
    return Guard(world) if make is None else make()


def differences(old: Any, new: Any) -> str:
    """The first fields in which two decisions differ, ``stages[1].devices 2 → 4``; empty if they are equal."""
    found = list(_changes(old, new, ""))
    rest = len(found) - SHOWN
    return "; ".join(found[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _changes(old: Any, new: Any, path: str) -> Iterable[str]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _changes(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new) and _deep(old, new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _changes(a, b, f"{path}[{i}]")
    else:
        yield f"{path} {_said(old)} → {_said(new)}".strip()


def _deep(*values: Sequence[Any]) -> bool:
    """Whether lists hold more than plain values; those are shown whole."""
    return any(isinstance(item, Mapping | list | tuple) for value in values for item in value) or any(
        len(value) > 16 for value in values
    )


def _said(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 80 else text[:77] + "…"
