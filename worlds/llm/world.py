"""The world of LLM serving: what it can be asked, and what studies know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError
from ..door import Door, DoorName
from ..outcome import Outcome
from ..world import OpenWorld, Panel
from . import TITLE
from .case import LLMCase
from .options import CompareOptions, ExportOptions, MeasureOptions, PlanOptions, RunOptions, SimulateOptions

if TYPE_CHECKING:
    from ...simulator.plan.file import PlanFile
    from ..guard import Guard
    from ..need import Need
    from .data import LLMData

__all__ = ["METRICS", "WORLD", "LLMWorld"]

DOORS = "meshwright.worlds.llm.doors"
RUN = (
    "model", "seed", "engine.", "workload.rate", "workload.cv", "workload.requests", "workload.duration",
    "workload.lengths", "workload.trace", "workload.slo", "workload.clients.arrivals",
    "workload.clients.front_end", "workload.clients.output_cv", "draws",
)  # fmt: skip
COMPARED = (
    "model", "seed", "kernels", "workload.rate", "workload.cv", "workload.duration", "workload.trace",
    "workload.clients.arrivals", "workload.clients.front_end", "workload.clients.output_cv",
)  # fmt: skip
MEASURED = ("model", "seed", "engine.tensor_parallel_size", "engine.block_size")
"""Beginnings of the paths that a door reads of a case: `workload.rate` stands for `workload.rate_scale` too."""
FOLDER = "folder for the tables; of several models one each in it"

_LATENCIES = {
    "ttft": "time to first token, seconds",
    "tpot": "time per further token, seconds",
    "e2e": "time from arrival to the last token, seconds",
}
METRICS = {
    "attainment": "share of the requests that finished within both limits",
    "goodput": "these requests per second of the time over which requests arrived",
    "throughput": "generated tokens per second",
    "request_throughput": "finished requests per second",
    "normalized_latency": "mean over requests of latency / output tokens, seconds per token",
    "mean_batch": "requests that run at once, averaged over time",
    "kv_use": "share of the KV slots in use, averaged over iterations",
    "preemptions": "how often a request lost its memory",
    "prefix_hit_rate": "share of the prompt tokens that the prefix cache held",
    "n_requests": "requests that are counted",
    "n_devices": "devices that the plan uses",
    **{f"{name}_p{p}": f"{p}th percentile of the {said}" for name, said in _LATENCIES.items() for p in (50, 90, 99)},
    "cost_per_hour": "price of the devices in use per hour",
    "mean_power": "watts of the devices in use, by the time for which they compute; of objectives cost and energy",
    "evaluations": "simulations that the planner made",
    "engine_failures": "engines that failed, each time counted; of failures and scaling, as what follows",
    "given_up": "requests that were hit by too many failures, or had no engine left",
    "availability": "share of the engines' lives in which they serve",
    "engine_hours": "hours of engines that are paid for: not of broken ones, nor of those given back",
}
"""What a study knows of a case."""


class LLMWorld(OpenWorld):
    """Language models served token by token."""

    name = "llm"
    title = TITLE
    case = LLMCase
    metrics = METRICS
    plan_kinds = ("meshwright/llm-plan",)
    essentials = (
        "model", "cluster.devices", "cluster.device", "workload.rate", "workload.lengths", "workload.trace",
        "workload.slo_ttft", "workload.slo_tpot", "planner.name", "planner.objective", "planner.options",
    )  # fmt: skip
    sample: Mapping[str, Any] = MappingProxyType(
        {
            "model": "llama-3.1-8b", "cluster.devices": 8, "cluster.device": "h100-80gb", "workload.rate": 60.0,
            "workload.lengths": "sharegpt", "workload.slo_ttft": 0.5, "workload.slo_tpot": 0.05,
        }
    )  # fmt: skip
    doors: Mapping[DoorName, Door] = MappingProxyType(
        {
            "plan": Door(
                f"{DOORS}.plan:decided", PlanOptions, says="case", out="write the plan here (of several, the best)"
            ),
            "simulate": Door(f"{DOORS}.simulate:simulated", SimulateOptions),
            "run": Door(
                f"{DOORS}.run:ran",
                RunOptions,
                says="nothing",
                also=RUN,
                needs_plan=False,
                out="write a row per request here",
                one=True,
            ),
            "compare": Door(
                f"{DOORS}.compare:compared", CompareOptions, says="nothing", also=COMPARED, needs_plan=False
            ),
            "measure": Door(
                f"{DOORS}.measure:measured",
                MeasureOptions,
                says="nothing",
                also=MEASURED,
                needs_plan=False,
                out=FOLDER,
                folder=True,
            ),
            "export": Door(
                f"{DOORS}.export:exported", ExportOptions, says="nothing", out="folder to write to", one=True
            ),
        }
    )
    exports: Mapping[str, str] = MappingProxyType(
        {"vllm": "vllm serve scripts and docker-compose files per node", "k8s": "Kubernetes manifests"}
    )
    studies: Mapping[str, str] = MappingProxyType({"llm": "llm-capacity.yaml"})

    def planners(self) -> Mapping[str, str]:
        """The two."""
        return {
            "vllm": "searches parallelism, options, replicas and devices of every model",
            "fixed": "the engine as the case says it, as often as it fits",
        }

    def known(self, path: str) -> Iterable[str]:
        """Models, devices, lengths, planners, policies and routers."""
        if path == "planner.name":
            return self.planners()
        if path == "model":
            from ...profiles.llm.zoo import DECODERS

            return DECODERS
        if path in ("cluster.device", "cluster.pools"):
            from ...profiles.devices import DEVICES

            return DEVICES
        if path == "workload.lengths":
            from ...traces.lengths import LENGTHS

            return LENGTHS
        return ()

    def plan_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of plans of engines."""
        from ...simulator.llm.plan.file import LLMPlan

        return LLMPlan.json_schema()

    def load(self, path: Path) -> PlanFile:
        """Read an LLM plan."""
        from ...simulator.llm.plan.file import LLMPlan

        return LLMPlan.load(path)

    def case_of(self, plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
        """What an LLM plan says of its circumstances: models, limits, and the rate where no traffic is said."""
        from .doors.origin import case_of

        return case_of(plans, said, door)

    def needs(self) -> Sequence[Need]:
        """Both engines of the simulator, the real one, its endpoint and its kernels."""
        from .needs import NEEDS

        return NEEDS

    def share(self, cases: Sequence[LLMCase], folder: Path) -> LLMData:
        """Load decoders, kernel tables, lengths and traces that the cases name."""
        from .data import load_data

        return load_data(cases, folder)

    def digests(self, case: LLMCase, shared: LLMData) -> Mapping[str, str]:
        """SHA-256 of the files that a case reads."""
        return shared.digests_of(case)

    def evaluate(self, case: LLMCase, shared: LLMData) -> Outcome:
        """Plan and score."""
        from .measures import decision, measures
        from .solve import solve

        try:
            solved = solve(case, shared)
        except InfeasibleError as error:
            return Outcome("infeasible", error=" ".join(str(error).split()))
        metrics, notes = measures(solved)
        return Outcome(metrics=metrics, notes=notes, decision=decision(solved))

    def panels(self, case: LLMCase, shared: LLMData) -> Sequence[Panel]:
        """The plan in words."""
        from .solve import solve

        solved = solve(case, shared)
        body = f"<pre>{escape(solved.plan.explain())}</pre>"
        return (Panel("Engines", "What serves the base case, and the KV memory that it has.", "html", body),)

    def guard(self) -> Guard:
        """The world as the gate sees it."""
        from .guard import LLMGuard

        return LLMGuard(self)


WORLD = LLMWorld()
