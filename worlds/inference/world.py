"""The inference world: what it can be asked, and what studies know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError, LimitError
from ..door import Door, DoorName
from ..guard import Guard
from ..outcome import Outcome
from ..world import OpenWorld, Panel
from . import TITLE
from .case import InferenceCase
from .names import METRICS
from .options import CompareOptions, ExportOptions, MeasureOptions, PlanOptions, RunOptions, SimulateOptions

if TYPE_CHECKING:
    from ...simulator.plan.file import PlanFile
    from .data import InferenceData
    from .plan import InferencePlan

__all__ = ["WORLD", "InferenceWorld"]

DOORS = "meshwright.worlds.inference.doors"


class InferenceWorld(OpenWorld):
    """One network for inference, its operators on several backends of this machine."""

    name = "inference"
    title = TITLE
    case = InferenceCase
    metrics = METRICS
    plan_kinds = ("meshwright/inference-plan",)
    essentials = (
        "model", "workload.batch", "workload.slo", "backends", "costs", "planner.name", "planner.options", "seed",
    )  # fmt: skip
    sample: Mapping[str, Any] = MappingProxyType(
        {"model": "resnet-18-image64", "backends": ["torch-onednn", "torch-jit"], "planner.name": "collage-op"}
    )
    doors: Mapping[DoorName, Door] = MappingProxyType(
        {
            "plan": Door(f"{DOORS}.plan:decided", PlanOptions, "case", "write the plan here (of several, the best)"),
            "simulate": Door(
                f"{DOORS}.simulate:simulated", SimulateOptions, "nothing", shows_one=("timeline", "png"),
            ),
            "run": Door(f"{DOORS}.run:ran", RunOptions, "nothing", one=True),
            "compare": Door(f"{DOORS}.compare:compared", CompareOptions, "nothing"),
            "measure": Door(
                f"{DOORS}.measure:measured", MeasureOptions, "nothing",
                "write the cost table, or of a plan its profiles for the serving world, here",
                also=("seed", "model", "workload.batch", "backends"), needs_plan=False,
            ),
            "export": Door(f"{DOORS}.export:exported", ExportOptions, "nothing", "folder to write to", one=True),
        }
    )  # fmt: skip
    exports: Mapping[str, str] = MappingProxyType(
        {"folder": "regions as files of their backends, and a program that needs no Meshwright"}
    )

    def planners(self) -> Mapping[str, str]:
        """Collage's two levels, ours, and what they are compared with."""
        from .solve import PLANNERS

        return PLANNERS

    def known(self, path: str) -> Iterable[str]:
        """Planners, networks, backends."""
        if path == "planner.name":
            return self.planners()
        if path == "model":
            from ...kernels.networks.catalogue import NETWORKS

            return NETWORKS
        if path == "backends":
            from ...runtime.backends.registry import names

            return names()
        return ()

    def plan_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of inference plans."""
        from .plan import InferencePlan

        return InferencePlan.json_schema()

    def load(self, path: Path) -> PlanFile:
        """Read an inference plan."""
        from .plan import InferencePlan

        return InferencePlan.load(path)

    def case_of(self, plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
        """Network, batch, backends and planner of a plan."""
        from .doors.origin import case_of

        return case_of(plans, said)

    def share(self, cases: Sequence[InferenceCase], folder: Path) -> InferenceData:
        """Read the cost tables that cases name."""
        from .data import load_data

        return load_data(cases, folder)

    def digests(self, case: InferenceCase, shared: InferenceData) -> Mapping[str, str]:
        """SHA-256 of the cost table."""
        return {} if case.costs is None else {case.costs: shared.digests[case.costs]}

    def evaluate(self, case: InferenceCase, shared: InferenceData) -> Outcome:
        """Plan from costs, and add them up."""
        from .measures import measures

        try:
            plan = self._planned(case, shared)
        except (InfeasibleError, LimitError) as error:
            return Outcome("infeasible", error=" ".join(str(error).split()))
        used = ", ".join(dict.fromkeys(group.backend for group in plan.groups))
        return Outcome(metrics=measures(plan), decision=f"{len(plan.groups)} groups on {used}")

    def panels(self, case: InferenceCase, shared: InferenceData) -> Sequence[Panel]:
        """The groups, each with its backend and the second best."""
        text = escape(self._planned(case, shared).explain())
        return (Panel("Placement", "Groups in the order in which they run.", "html", f"<pre>{text}</pre>"),)

    def guard(self) -> Guard:
        """The world as the gate sees it."""
        from .guard import InferenceGuard

        return InferenceGuard(self)

    def _planned(self, case: InferenceCase, shared: InferenceData) -> InferencePlan:
        from .solve import choose, plan_of

        table = shared.table(case)
        return plan_of(case, table, choose(case, table))


WORLD = InferenceWorld()
"""The object that studies use."""
