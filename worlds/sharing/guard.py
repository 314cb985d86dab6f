"""`SharingGuard`: what a policy makes of a workload: when each app ends, and the metrics on other draws of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from ...errors import InputError
from ...simulator.sharing import simulate
from ...wording import short
from ..guard import Decided, Guard, Measure
from ..world import Case
from .build import policy_of, world_of
from .case import SharingCase

__all__ = ["SharingGuard"]

NONE_ENDED = "no app was completed"
SHOWN = 4
"""Apps that are named one by one."""


class SharingGuard(Guard):
    """A shared training cluster, as the gate sees it.

    A policy decides at every instant anew, so there is no plan to carry out again: what is kept is when each app of the
    case's own workload ends, and the scores on other draws.
    """

    measures: ClassVar[Mapping[str, Measure]] = {
        "max_rho": Measure(False, absent=NONE_ENDED),
        "median_rho": Measure(False, absent=NONE_ENDED),
        "fair_share": Measure(True, share=True, absent=NONE_ENDED),
        "jain": Measure(True, share=True, absent=NONE_ENDED),
        "placement_score": Measure(True, share=True, absent="no app had a GPU"),
        "mean_completion_s": Measure(False, unit="s", digits=1, absent=NONE_ENDED),
        "makespan_s": Measure(False, unit="s", digits=1),
        "gpu_hours": Measure(False, unit="h", digits=2),
    }

    rivals: ClassVar[tuple[tuple[str, ...], ...]] = (("apps", "workload"),)

    def draws(self, case: Case) -> bool:
        """Whether the workload is drawn; listed apps are the same under every seed."""
        return cast(SharingCase, case).workload is not None

    def check(self, plan: Any) -> None:
        """Refuse what does not say when apps end."""
        ends = plan.get("ends_s") if isinstance(plan, Mapping) else None
        if not isinstance(ends, Mapping):
            raise InputError(f"ends_s: expected when each app ends, by name (got {short(ends)})")

    def decide(self, case: Case, shared: Any, foreign: bool = False) -> Decided:
        """When each app ends, seconds; of those that fail, None."""
        asked = cast(SharingCase, case)
        world = world_of(asked, shared.apps(asked))
        result = simulate(world, policy_of(asked))
        ends = {
            app.name: round(float(end), 3) if done else None
            for app, end, done in zip(world.apps, result.finish, result.completed, strict=True)
        }
        return Decided({"ends_s": ends})

    def differ(self, old: Any, new: Any) -> str:
        """Which apps end later, and which earlier; the farthest first."""
        before, after = cast("dict[str, Any]", old["ends_s"]), cast("dict[str, Any]", new["ends_s"])
        names = [*dict.fromkeys([*before, *after])]
        failed = [n for n in names if after.get(n) is None and before.get(n) is not None]
        saved = [n for n in names if before.get(n) is None and after.get(n) is not None]
        moved = {n: after[n] - before[n] for n in names if before.get(n) is not None and after.get(n) is not None}
        said = [
            f"{verb}: {', '.join(apps[:SHOWN])}"
            for verb, apps in (("ends no more", failed), ("ends now", saved))
            if apps
        ]
        for verb, sign in (("later", 1), ("earlier", -1)):
            apps = sorted((n for n, by in moved.items() if sign * by > 0), key=lambda n: -sign * moved[n])
            shown = ", ".join(f"{n} {before[n]:.0f} → {after[n]:.0f} s" for n in apps[:SHOWN])
            more = f" and {len(apps) - SHOWN} more" if len(apps) > SHOWN else ""
            said += [f"{len(apps)} of {len(names)} apps end {verb}: {shown}{more}"] if apps else []
        return "; ".join(said)
