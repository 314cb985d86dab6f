"""`TrainingGuard`: a training plan's stages kept, and its one iteration held against the baseline's, exactly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from ...errors import InputError, MeshwrightError
from ...simulator.training import TrainingPlan
from ...wording import short
from ..guard import Decided, Guard, Measure, Scores, UnfitError, differences
from ..world import Case
from .case import TrainingCase
from .measures import measures
from .solve import plan as planned
from .solve import solve

__all__ = ["TrainingGuard"]

GIB = 2.0**30
SHARDED = ("operators", "parameters", "optimizer_states")
"""What says how a stage is cut over its mesh: thousands of lines, of which a baseline keeps a digest."""


class TrainingGuard(Guard):
    """One model trained on a cluster, as the gate sees it. Nothing is drawn: there is one score.

    A plan file holds the times that its stages were priced at. To simulate an old one would hold old prices against new
    ones, so the gate keeps what was decided and what it scored. Where the same decision scores otherwise, it says so.
    """

    measures: ClassVar[Mapping[str, Measure]] = {
        "iteration_s": Measure(False, unit="ms", scale=1000.0),
        "samples_per_s": Measure(True, unit="/s"),
        "mfu": Measure(True, share=True),
        "bubble": Measure(False, share=True),
        "memory_headroom": Measure(True, share=True),
    }

    def draws(self, case: Case) -> bool:
        """No."""
        return False

    def check(self, plan: Any) -> None:
        """Refuse what holds no stages."""
        stages = plan.get("stages") if isinstance(plan, Mapping) else None
        if not isinstance(stages, list) or not stages:
            raise InputError(f"stages: expected a list of stages (got {short(stages)})")

    def decide(self, case: Case, shared: Any, foreign: bool = False) -> Decided:
        """The stages: which operators on which devices, cut how, how many microbatches in which order."""
        made = planned(cast(TrainingCase, case), shared)
        return Decided(_decision(made), made.planner.evaluations)

    def scores(self, case: Case, plan: Any, shared: Any, seeds: Sequence[int]) -> Scores:
        """One simulated iteration; a plan that needs more memory than there is cannot be carried out."""
        try:
            solved = solve(cast(TrainingCase, case), shared)
        except MeshwrightError as error:
            raise UnfitError(str(error)) from error
        result = solved.result
        if not result.fits:
            raise UnfitError(
                f"the plan takes {float(result.peak_bytes[result.fullest]) / GIB:.2f} GiB of a device, which has "
                f"{result.memory_bytes / GIB:.2f}"
            )
        found, _ = measures(solved)
        return {name: (found.get(name),) for name in self.measures}

    def differ(self, old: Any, new: Any) -> str:
        """Stages that are fewer or more, that hold other operators or other devices, or that are cut otherwise."""
        if old == new:
            return ""
        said: list[str] = []
        if len(old["stages"]) != len(new["stages"]):
            said.append(f"{_stages(new)} instead of {_stages(old)}")
        elif old["stages"] != new["stages"]:
            said.append(_changed(old["stages"], new["stages"]))
        rest = differences(*({k: v for k, v in plan.items() if k != "stages"} for plan in (old, new)))
        return "; ".join([*said, *([rest] if rest else [])])


def _decision(plan: TrainingPlan) -> dict[str, Any]:
    stages: list[dict[str, Any]] = []
    for entry in plan.stages:
        mesh = plan.meshes[entry.mesh]
        stage: dict[str, Any] = {
            "operators": [entry.first, entry.last],
            "devices": f"{mesh.hosts}x{mesh.devices} at {mesh.first_host}.{mesh.first_device}",
            "logical": list(entry.logical), "recompute": entry.recompute,
            "sharding": _digest([entry.model_dump(mode="json")[name] for name in SHARDED]),
        }  # fmt: skip
        if entry.microbatch:
            stage["microbatch"] = entry.microbatch
        if plan.schedule == "kfkb":
            stage |= {"k": entry.k, "warmup": entry.warmup}
        if entry.order:
            stage["passes"] = entry.order
        stages.append(stage)
    kept: dict[str, Any] = {"microbatches": plan.microbatches, "schedule": plan.schedule}
    if plan.slices:
        kept["slices"] = [{"samples": s.samples, "tokens": list(s.tokens), "count": s.count} for s in plan.slices]
    if plan.model.order:
        kept["order"] = _digest(plan.model.order)
    return kept | {"stages": stages}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _stages(plan: Any) -> str:
    stages = plan["stages"]
    sizes = ", ".join(str(stage["operators"][1] - stage["operators"][0]) for stage in stages[:12])
    more = ", …" if len(stages) > 12 else ""
    return f"{len(stages)} stage{'' if len(stages) == 1 else 's'} (of {sizes}{more} operators)"


def _changed(old: Sequence[Any], new: Sequence[Any]) -> str:
    """How many stages differ, and the first of them in full."""
    changed = [k for k, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    k = changed[0]
    return f"{len(changed)} of {len(old)} stages differ; stage {k}: {differences(old[k], new[k])}"
