"""The sharing world: what it can be asked, and what studies know of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ..door import Door, DoorName
from ..guard import Guard
from ..outcome import Outcome
from ..world import OpenWorld, Panel
from . import TITLE
from .case import SharingCase
from .names import METRICS
from .options import ExportOptions, PlanOptions, RunOptions, SimulateOptions
from .policies import POLICIES, has_option

if TYPE_CHECKING:
    from ...simulator.plan.file import PlanFile
    from .data import SharingData

__all__ = ["WORLD", "SharingStudyWorld"]

DOORS = "meshwright.worlds.sharing.doors"
DECIDED = ("lease", "cluster.")


class SharingStudyWorld(OpenWorld):
    """A shared training cluster."""

    name = "sharing"
    title = TITLE
    case = SharingCase
    metrics = METRICS
    plan_kinds = ("meshwright/sharing-plan",)
    essentials = (
        "cluster.preset", "cluster.devices", "cluster.devices_per_node", "workload.kind", "workload.apps",
        "workload.span", "workload.scale", "workload.trace", "lease", "planner.name", "planner.options", "seed",
    )  # fmt: skip
    sample: Mapping[str, Any] = MappingProxyType(
        {
            "cluster.preset": "themis-testbed", "workload.kind": "themis-2", "workload.apps": 24,
            "workload.span": "20 h", "workload.scale": 0.04, "lease": "10 min", "planner.name": "themis",
            "max_time": "90 d",
        }
    )  # fmt: skip
    doors: Mapping[DoorName, Door] = MappingProxyType(
        {
            "plan": Door(f"{DOORS}.plan:decided", PlanOptions, "case", "write the plan here (of several, the best)"),
            "simulate": Door(
                f"{DOORS}.simulate:simulated", SimulateOptions, out="write results: .json (all), .csv (a row per app)",
                also=DECIDED, alone=("bids",),
            ),
            "run": Door(f"{DOORS}.run:ran", RunOptions, out="write results: .json, or .csv (a row per app)", one=True),
            "export": Door(f"{DOORS}.export:exported", ExportOptions, out="folder to write to", one=True),
        }
    )  # fmt: skip
    exports: Mapping[str, str] = MappingProxyType(
        {
            "kueue": "settings of Kueue", "slurm": "settings of Slurm",
            "scheduler-plugin": "a plugin of kube-scheduler that asks our arbiter",
        }
    )  # fmt: skip

    examples: Mapping[str, str] = MappingProxyType({"cluster": "sharing.yaml", "here": "sharing-here.yaml"})
    studies: Mapping[str, str] = MappingProxyType({"sharing": "sharing-study.yaml"})

    def planners(self) -> Mapping[str, str]:
        """The policies."""
        return dict.fromkeys(POLICIES, "a policy")

    def has_option(self, planner: str, option: str) -> bool:
        """Whether a policy may be told that; of several, those take an option that have it."""
        return planner in POLICIES and has_option(planner, option)

    def known(self, path: str) -> Iterable[str]:
        """Policies."""
        return POLICIES if path == "planner.name" else ()

    def plan_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of sharing plans."""
        from .plan import SharingPlan

        return SharingPlan.json_schema()

    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schema of files of bids."""
        from .bids import bids_schema

        return {"bids": bids_schema()}

    def load(self, path: Path) -> PlanFile:
        """Read a sharing plan."""
        from .plan import SharingPlan

        return SharingPlan.load(path)

    def case_of(self, plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
        """The case in a plan."""
        from .doors.origin import case_of

        return case_of(plans, said)

    def share(self, cases: Sequence[SharingCase], folder: Path) -> SharingData:
        """Check every case, and read the traces that they name."""
        from .data import load_data

        return load_data(cases, folder)

    def digests(self, case: SharingCase, shared: SharingData) -> Mapping[str, str]:
        """SHA-256 of the traces that a case reads."""
        from .logs import log_files

        return {name: shared.digests[name] for name in log_files(case.workload)}

    def evaluate(self, case: SharingCase, shared: SharingData) -> Outcome:
        """Simulate. `attainment` is the share of apps with ρ ≤ 1, `fair_share`: what questions ask for. Of drawn times
        all are means over the draws."""
        from ...simulator.sharing import simulate
        from .build import in_file_words, policy_of, world_of
        from .measures import study_measures
        from .varying import MAIN, forecast

        world = world_of(case, shared.apps(case))
        try:
            if case.times == "mean":
                found = study_measures(simulate(world, policy_of(case)))
            else:
                told = forecast(case, world, policy_of(case), tell=study_measures)
                found = {name: told.expected(name) for name in told.runs}
                for name in MAIN:
                    if name in told.runs:
                        found[f"{name}_low"], found[f"{name}_high"] = told.interval(name)
        except InputError as error:
            raise in_file_words(error) from None
        notes = () if found["completed"] else ("no app was completed: nothing is known of ρ",)
        known = {name: value for name, value in found.items() if math.isfinite(value)}
        return Outcome(metrics=known, notes=notes, decision=f"{policy_of(case).name} on {world.cluster}")

    def panels(self, case: SharingCase, shared: SharingData) -> Sequence[Panel]:
        """The cluster and the apps in words, and ρ of the worst."""
        from ...simulator.sharing import simulate
        from .build import policy_of, world_of

        world = world_of(case, shared.apps(case))
        result = simulate(world, policy_of(case))
        worst = sorted((-r, a.name) for r, a in zip(result.rho, world.apps, strict=True) if math.isfinite(r))[:10]
        lines = [f"{world.cluster}; {len(world.apps)} apps under {result.policy}", "", "the largest ρ:"]
        lines += [f"{-rho:8.3f}  {name}" for rho, name in worst]
        body = f"<pre>{escape(chr(10).join(lines))}</pre>"
        return (Panel("Apps", "The cluster, and whom sharing served worst.", "html", body),)

    def guard(self) -> Guard:
        """The world as the gate sees it."""
        from .guard import SharingGuard

        return SharingGuard(self)


WORLD = SharingStudyWorld()
"""The object that studies use."""
