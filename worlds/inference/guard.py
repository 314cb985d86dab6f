"""`InferenceGuard`: which backend takes which operators, kept, and what that comes to by the costs of the case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from ...errors import InputError, MeshwrightError
from ...wording import short
from ..guard import Decided, Guard, Measure, Scores, UnfitError
from ..world import Case
from .case import InferenceCase
from .measures import measures
from .solve import Choice, choose, plan_of

__all__ = ["InferenceGuard"]

SHOWN = 4
"""Groups that are named one by one."""


class InferenceGuard(Guard):
    """A placement of operators on backends, as the gate sees it. Nothing is drawn: there is one score.

    Costs are of a file, so an old placement is scored again by the same costs.
    """

    measures: ClassVar[Mapping[str, Measure]] = {
        "latency_s": Measure(False, unit="ms", scale=1000.0),
        "samples_per_s": Measure(True, unit="/s"),
        "n_crossings": Measure(False, digits=0),
    }

    def draws(self, case: Case) -> bool:
        """No."""
        return False

    def check(self, plan: Any) -> None:
        """Refuse what holds no groups."""
        groups = plan.get("groups") if isinstance(plan, Mapping) else None
        if not isinstance(groups, list) or not groups:
            raise InputError(f"groups: expected a list of groups (got {short(groups)})")

    def decide(self, case: Case, shared: Any, foreign: bool = False) -> Decided:
        """Groups in their order: a backend and its operators."""
        asked = cast(InferenceCase, case)
        choice = choose(asked, shared.table(asked))
        return Decided({"groups": [[backend, *nodes] for backend, nodes in choice.groups]}, choice.evaluations)

    def scores(self, case: Case, plan: Any, shared: Any, seeds: Sequence[int]) -> Scores:
        """Its predicted call; a placement whose operators are not the network's any more cannot be carried out."""
        asked = cast(InferenceCase, case)
        choice = Choice(tuple((group[0], tuple(group[1:])) for group in plan["groups"]))
        try:
            found = measures(plan_of(asked, shared.table(asked), choice))
        except (MeshwrightError, KeyError) as error:
            raise UnfitError(f"the groups are not of this network, or its backends: {error}") from error
        return {name: (found.get(name),) for name in self.measures}

    def differ(self, old: Any, new: Any) -> str:
        """Operators that moved to another backend, and by how many groups the two differ."""
        before, after = (
            {name: group[0] for group in plan["groups"] for name in group[1:]} for plan in (old, new)
        )  # fmt: skip
        moved = [name for name in after if before.get(name) != after[name]]
        shown = ", ".join(f"{name}: {before.get(name, 'none')} → {after[name]}" for name in moved[:SHOWN])
        more = f" and {len(moved) - SHOWN} more" if len(moved) > SHOWN else ""
        said = [f"{len(moved)} operators elsewhere: {shown}{more}"] if moved else []
        if len(old["groups"]) != len(new["groups"]):
            said.append(f"{len(new['groups'])} groups instead of {len(old['groups'])}")
        elif not moved and old != new:
            said.append("operators are grouped, or groups are ordered, otherwise")
        return "; ".join(said)
