"""The world of training: what it can be asked, and what studies know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError
from ..door import Door, DoorName
from ..guard import Guard
from ..outcome import Outcome
from ..world import OpenWorld, Panel
from . import TITLE
from .case import TrainingCase
from .names import METRICS
from .options import CompareOptions, ExportOptions, MeasureOptions, PlanOptions, RunOptions, SimulateOptions

if TYPE_CHECKING:
    from ...profiles.graph import Graph
    from ...profiles.graph.costs.measured.profile import TrainingProfile
    from ...profiles.measure.training import Asked as MeasureAsked
    from ...simulator.plan.file import PlanFile
    from ..demo import DemoAsked, Shown
    from .data import TrainingData

__all__ = ["METRICS", "WORLD", "TrainingWorld"]

DOORS = "meshwright.worlds.training.doors"
SEED = ("seed",)


class TrainingWorld(OpenWorld):
    """One model trained on a cluster."""

    name = "training"
    title = TITLE
    case = TrainingCase
    metrics = METRICS
    plan_kinds = ("meshwright/training-plan",)
    essentials = (
        "model", "cluster.devices", "cluster.devices_per_node", "cluster.device", "cluster.memory",
        "workload.global_batch", "workload.microbatches", "workload.sequence", "planner.name", "planner.options",
    )  # fmt: skip
    sample: Mapping[str, Any] = MappingProxyType(
        {
            "model": "tiny-gpt", "cluster.devices": 2, "cluster.device": "cpu-core", "workload.global_batch": 16,
            "workload.microbatches": 4, "planner.name": "alpa",
        }
    )  # fmt: skip
    doors: Mapping[DoorName, Door] = MappingProxyType(
        {
            "plan": Door(
                f"{DOORS}.plan:decided", PlanOptions, "case", "write the plan here (of several, the best)",
                instead={"authors": {"workload.global_batch": 1}},
            ),
            "simulate": Door(
                f"{DOORS}.simulate:simulated", SimulateOptions, "nothing", shows_one=("timeline", "png"),
                also=("failures", "checkpoint", "workload.run_samples", *SEED),
            ),
            "run": Door(
                f"{DOORS}.run:ran", RunOptions, "nothing", "write every action here (CSV)", also=SEED, one=True
            ),
            "compare": Door(f"{DOORS}.compare:compared", CompareOptions, "nothing", also=SEED),
            "measure": Door(
                f"{DOORS}.measure:measured", MeasureOptions, "nothing", "write the measured plan, or profile, here",
                also=("seed", "model"), needs_plan=False,
            ),
            "export": Door(f"{DOORS}.export:exported", ExportOptions, "nothing", "folder to write to", one=True),
        }
    )  # fmt: skip
    exports: Mapping[str, str] = MappingProxyType(
        {
            "torch": "programs with DTensor placements, for torchrun", "megatron": "arguments of Megatron-LM",
            "deepspeed": "a configuration of DeepSpeed",
        }
    )  # fmt: skip
    examples: Mapping[str, str] = MappingProxyType(
        {
            name: f"training-{name}.yaml"
            for name in (
                "deepseek-v3", "llama-4-maverick", "llama-3-405b", "llama-3-70b", "mixtral-8x7b", "mixtral-8x22b"
            )
        }
    )  # fmt: skip
    studies: Mapping[str, str] = MappingProxyType({"training": "training-study.yaml"})

    def planners(self) -> Mapping[str, str]:
        """Alpa and what it is compared with, TeraPipe, GraphPipe, PipeDream, Piper, and the configuration search."""
        from ...planners.training import CONFIGURATION_SEARCH, TRAINING_PLANNERS

        said = dict.fromkeys(TRAINING_PLANNERS, "of a graph of operators")
        return {**said, CONFIGURATION_SEARCH: "tensor, pipeline and data parallelism of a decoder, all combinations"}

    def known(self, path: str) -> Iterable[str]:
        """Planners, models of the zoo, devices."""
        if path == "planner.name":
            return self.planners()
        if path == "model":
            from ...profiles.graph import ZOO

            return ZOO
        if path == "cluster.device":
            from ...profiles.devices import DEVICES

            return DEVICES
        return ()

    def plan_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of training plans."""
        from ...simulator.training.plan.file import TrainingPlan

        return TrainingPlan.json_schema()

    def load(self, path: Path) -> PlanFile:
        """Read a training plan."""
        from ...simulator.training.plan.file import TrainingPlan

        return TrainingPlan.load(path)

    def case_of(self, plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
        """Model, cluster and batch of a plan."""
        from .doors.origin import case_of

        return case_of(plans, said)

    def options_text(self, planners: Sequence[str]) -> tuple[str, Any]:
        """What the options of some planners are, for people and for machines."""
        from .doors.planner_options import options_text

        return options_text(planners)

    def at_work(
        self, profile: TrainingProfile, graph: Graph, asked: MeasureAsked, tell: Callable[[str], None]
    ) -> TrainingProfile:
        """A profile with what stages of its graph take over the sums of their operators."""
        from .at_work import at_work

        return at_work(profile, graph, asked, tell)

    def demo(self, asked: DemoAsked) -> Shown:
        """A small GPT trained here by a plan."""
        from .demo import demo

        return demo(asked)

    def share(self, cases: Sequence[TrainingCase], folder: Path) -> TrainingData:
        """Load graphs, shapes, tables and profiles that the cases name; trace modules."""
        from .data import load_data

        return load_data(cases, folder)

    def digests(self, case: TrainingCase, shared: TrainingData) -> Mapping[str, str]:
        """SHA-256 of the files that a case reads."""
        return shared.digests_of(case)

    def evaluate(self, case: TrainingCase, shared: TrainingData) -> Outcome:
        """Plan and simulate."""
        from .measures import decision, measures
        from .solve import solve

        try:
            solved = solve(case, shared)
        except InfeasibleError as error:
            return Outcome("infeasible", error=" ".join(str(error).split()))
        metrics, notes = measures(solved)
        return Outcome(metrics=metrics, notes=notes, decision=decision(solved.plan))

    def panels(self, case: TrainingCase, shared: TrainingData) -> Sequence[Panel]:
        """The plan, its timeline and its memory."""
        from .panels import panels
        from .solve import solve

        return panels(solve(case, shared))

    def guard(self) -> Guard:
        """The world as the gate sees it."""
        from .guard import TrainingGuard

        return TrainingGuard(self)


WORLD = TrainingWorld()
