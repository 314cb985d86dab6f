"""The serving world (AlpaServe): what it can be asked, and what studies know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError, InputError
from ..door import Door, DoorName
from ..guard import Guard
from ..outcome import Outcome
from ..world import OpenWorld, Panel
from . import TITLE
from .case import ServingCase
from .names import METRICS
from .options import CompareOptions, ExportOptions, MeasureOptions, PlanOptions, RunOptions, SimulateOptions

if TYPE_CHECKING:
    from ...simulator.plan.file import PlanFile
    from ..demo import DemoAsked, Shown
    from ..need import Need
    from .data import ServingData

__all__ = ["METRICS", "WORLD", "ServingWorld"]

DOORS = "meshwright.worlds.serving.doors"


class ServingWorld(OpenWorld):
    """Multi-model serving of one-shot requests: the world of AlpaServe."""

    name = "serving"
    title = TITLE
    case = ServingCase
    metrics = METRICS
    plan_kinds = ("meshwright-plan",)
    essentials = (
        "models", "cluster.devices", "cluster.device", "profile", "workload.rate", "workload.cv", "workload.duration",
        "workload.trace", "workload.slo_scale", "workload.slo", "planner.name", "planner.options", "seed",
    )  # fmt: skip
    sample: Mapping[str, Any] = MappingProxyType(
        {
            "models": {"bert-1.3b": 8}, "cluster.devices": 8, "workload.rate": 30.0, "workload.cv": 4.0,
            "workload.duration": 60.0, "workload.slo_scale": 5.0, "planner.name": "alpaserve",
        }
    )  # fmt: skip
    doors: Mapping[DoorName, Door] = MappingProxyType(
        {
            "plan": Door(f"{DOORS}.plan:decided", PlanOptions, "case", "write the plan here (of several, the best)"),
            "simulate": Door(
                f"{DOORS}.simulate:simulated", SimulateOptions, also=("serving.", "failures.", "loading.", "scaling."),
                shows_one=("timeline",),
            ),
            "run": Door(
                f"{DOORS}.run:ran", RunOptions, out="write a row per request here (CSV)",
                also=("serving.max", "serving.draws", "failures."), one=True,
            ),
            "compare": Door(f"{DOORS}.compare:compared", CompareOptions, also=("serving.max",)),
            "measure": Door(
                f"{DOORS}.measure:measured", MeasureOptions, "nothing", "write the profiles here (JSON)",
                also=("models", "seed"), of_plans=("workload.", "profile"), needs_plan=False,
            ),
            "export": Door(f"{DOORS}.export:exported", ExportOptions, "nothing", "folder to write to", one=True),
        }
    )  # fmt: skip
    exports: Mapping[str, str] = MappingProxyType(
        {
            "torchrun": "a script per node", "k8s": "Kubernetes manifests", "ray-serve": "a Ray Serve application",
            "triton": "a model repository of Triton", "vllm": "vllm serve scripts",
        }
    )  # fmt: skip
    studies: Mapping[str, str] = MappingProxyType(
        {
            "capacity": "capacity-study.yaml",
            "sweep": "sweep.yaml",
            "headroom": "headroom.yaml",
            "breaks": "breaks-first.yaml",
        }
    )

    def planners(self) -> Mapping[str, str]:
        """Shipped planners, and those that installed packages bring."""
        from ...planners.contract.installed import names
        from ...planners.contract.shipped import PLANNERS

        return {**dict.fromkeys(PLANNERS, "shipped"), **dict.fromkeys(names(), "of an installed package")}

    def known(self, path: str) -> Iterable[str]:
        """Models, model sets, devices, profile sets, planners."""
        from ...profiles import DEVICES, load, shipped

        if path == "planner.name":
            return (*self.planners(), "all")
        if path == "models":
            return ("S1", "S2", "S3", "S4", *load("alpaserve-v100"))
        return {"cluster.device": DEVICES, "profile": shipped()}.get(path, ())

    def settled(self, case: ServingCase, folder: Path) -> ServingCase:
        """With the device type of its profile, where nobody says one."""
        from .settled import settled

        return settled(case, folder)

    def plan_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of placements."""
        from ...simulator.serving.plan.file import Plan

        return Plan.json_schema()

    def load(self, path: Path) -> PlanFile:
        """Read a placement."""
        from ...simulator.serving.plan.file import Plan

        return Plan.load(path)

    def case_of(self, plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
        """Cluster and models of a plan."""
        from .doors.origin import case_of

        return case_of(plans, said, door)

    def needs(self) -> Sequence[Need]:
        """Plans, both engines, processes that talk to each other."""
        from .needs import NEEDS

        return NEEDS

    def demo(self, asked: DemoAsked) -> Shown:
        """The whole loop, from a measurement to real runs beside their simulation."""
        from .demo import demo

        return demo(asked)

    def share(self, cases: Sequence[ServingCase], folder: Path) -> ServingData:
        """Load profiles, traces, plans and planners that the cases name."""
        from .load import load_data

        return load_data(cases, folder)

    def digests(self, case: ServingCase, shared: ServingData) -> Mapping[str, str]:
        """SHA-256 of the profile set, trace, plan and planner file that a case reads."""
        return shared.digests_of(case)

    def evaluate(self, case: ServingCase, shared: ServingData) -> Outcome:
        """Plan and score.

        Raises
        ------
        InputError
            On a case that `share` would have refused, such as one that somebody asked for by hand.
        """
        from .check import check_case
        from .measures import decision, measures
        from .solve import solve

        wrong = list(check_case(case, shared))
        if wrong:
            raise InputError("; ".join(wrong))
        try:
            solved = solve(case, shared)
        except InfeasibleError as error:
            return Outcome("infeasible", error=" ".join(str(error).split()))
        metrics, notes = measures(solved)
        return Outcome(metrics=metrics, notes=notes, decision=decision(solved.plan))

    def panels(self, case: ServingCase, shared: ServingData) -> Sequence[Panel]:
        """Placement on the cluster, the worst burst, utilisation."""
        from .panels import panels
        from .solve import solve

        return panels(solve(case, shared))

    def guard(self) -> Guard:
        """Serving as the gate sees it."""
        from .guard import ServingGuard

        return ServingGuard(self)


WORLD = ServingWorld()
