"""`LLMGuard`: engines planned on one draw of the requests, and scored on others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

from pydantic import ValidationError

from ...errors import InputError, MeshwrightError
from ...planners.vllm import Effort, SearchSpace, plan, plan_shared
from ...planners.vllm.mixes import plan_mixed
from ...planners.vllm.scoring import served
from ...simulator.llm.plan.entries import Deployment
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.llm.plan.result import LLMPlanResult
from ...simulator.plan.entries import PlannerEntry
from ...wording import amiss, dotted, short
from ..guard import Decided, Guard, Measure, Scores, UnfitError, differences
from ..world import Case
from .case import LLMCase
from .conditions.befalling import scored
from .data import LLMData, planner_options
from .demands import demands_of
from .fleet import cluster_of, fleet_of, mixes
from .solve import as_said, planned, tables_of

__all__ = ["LLMGuard"]

SEARCH = "vllm"
"""The planner that takes several models; `fixed` places one engine."""


class LLMGuard(Guard):
    """Language models served token by token, as the gate sees it."""

    measures: ClassVar[Mapping[str, Measure]] = {
        "attainment": Measure(True, share=True),
        "goodput": Measure(True, unit="/s", absent="no request finished"),
        "ttft_p90": Measure(False, unit="ms", scale=1000.0, digits=1, absent="no request finished"),
        "tpot_p90": Measure(False, unit="ms", scale=1000.0, digits=2, absent="no request has a second token"),
        "n_devices": Measure(False, unit="devices", digits=0),
    }
    always: ClassVar[tuple[str, ...]] = ("attainment",)
    scores_again: ClassVar[bool] = True
    rivals: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("workload.rate", "workload.trace"),
        ("workload.requests", "workload.duration", "workload.trace"),
    )

    def draws(self, case: Case) -> bool:
        """Whether the requests are drawn; measured ones are always the same."""
        return cast(LLMCase, case).workload.trace is None

    def check(self, plan: Any) -> None:
        """Refuse what holds no deployments."""
        try:
            _deployments(plan)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise InputError(f"{dotted(first['loc'])}: {amiss(first)}") from None

    def decide(self, case: Case, shared: Any, foreign: bool = False) -> Decided:
        """Plan on the requests of the case's own seed."""
        made = _made(cast(LLMCase, case), shared)
        kept = [d.model_dump(mode="json", exclude_defaults=True) for d in made.deployments]
        return Decided({"router": made.router, "deployments": kept}, made.planner.evaluations)

    def scores(self, case: Case, plan: Any, shared: Any, seeds: Sequence[int]) -> Scores:
        """All metrics on the requests of each seed."""
        asked, data = cast(LLMCase, case), cast(LLMData, shared)
        found: dict[str, list[float | None]] = {name: [] for name in self.measures}
        try:
            made = _rebuilt(asked, data, plan)
            _check_memory(made)
            for seed in seeds:
                requests = {d.name: d.traffic.trace(seed) for d in demands_of(asked, data)}
                result = scored(
                    made, requests, asked, data.scripts, tables=tables_of(asked, data), seed=seed, too_long="ignore"
                )
                for name, value in _metrics(result, asked.warmup).items():
                    found[name].append(value if math.isfinite(value) else None)
        except MeshwrightError as error:
            raise UnfitError(str(error)) from error
        return {name: tuple(values) for name, values in found.items()}

    def differ(self, old: Any, new: Any) -> str:
        """Which engines serve which model otherwise; their options where nothing else differs."""
        if old == new:
            return ""
        before, after = (_engines(_deployments(plan)) for plan in (old, new))
        said = [
            f"{model}: {after.get(model, 'no engine')} instead of {before.get(model, 'none')}"
            for model in dict.fromkeys([*before, *after])
            if before.get(model) != after.get(model)
        ]
        return "; ".join(said) or differences(old, new) or "the same engines in another order"


def _made(case: LLMCase, data: LLMData) -> LLMPlan:
    share = case.planner.options.get("share", False)
    if case.planner.name != SEARCH or not (share or len(case.models) > 1):
        return planned(case, data)[0]
    space, effort = planner_options(case)
    demands, cluster, tables = demands_of(case, data), cluster_of(case, data), tables_of(case, data)
    if share:
        return plan_shared(
            cluster, demands, tables=tables, space=SearchSpace(**space), effort=Effort(**effort), seed=case.seed
        ).plan
    if mixes(case):
        return plan_mixed(
            fleet_of(case, data), demands, objective=case.planner.objective, target=case.planner.target, tables=tables,
            space=SearchSpace(**space), effort=Effort(**effort), seed=case.seed,
        ).plan  # fmt: skip
    return plan(
        cluster, demands, objective=case.planner.objective, target=case.planner.target, tables=tables,
        space=SearchSpace(**space), effort=Effort(**effort), seed=case.seed,
    ).plan  # fmt: skip


def _deployments(plan: Any) -> tuple[Deployment, ...]:
    kept = plan.get("deployments") if isinstance(plan, Mapping) else None
    if not isinstance(kept, Iterable) or not kept:
        raise InputError(f"deployments: expected a list of engines (got {short(kept)})")
    return tuple(Deployment.model_validate(entry) for entry in cast("Iterable[Any]", kept))


def _rebuilt(case: LLMCase, data: LLMData, plan: Any) -> LLMPlan:
    """The plan of a decision, on the case's cluster and with its limits."""
    made = LLMPlan.of(
        fleet_of(case, data), tuple(served(d) for d in demands_of(case, data)), _deployments(plan),
        planner=PlannerEntry(name=case.planner.name), router=str(plan["router"]),
    )  # fmt: skip
    return as_said(made, case, data)


def _check_memory(plan: LLMPlan) -> None:
    """Refuse engines with more KV blocks than their devices hold: no simulation would notice.

    Raises
    ------
    UnfitError
        Naming the deployment.
    """
    for each in plan.deployments:
        room = plan.capacity(each).engine_blocks
        if each.num_blocks > room:
            raise UnfitError(f"{each.name}: {each.num_blocks} KV blocks; the devices hold {room}")


def _metrics(result: LLMPlanResult, warmup: int) -> dict[str, float]:
    if warmup:
        result = LLMPlanResult(result.plan, {m: r.trim(warmup, warmup) for m, r in result.results.items()})
    return {
        "attainment": result.attainment,
        "goodput": result.goodput,
        "ttft_p90": result.percentiles("ttft", (90,))[0],
        "tpot_p90": result.percentiles("tpot", (90,))[0],
        "n_devices": float(len(result.plan.used_devices)),
    }


def _engines(deployments: Sequence[Deployment]) -> dict[str, str]:
    """Model -> its engines, in words, without names and memory."""
    found: dict[str, list[str]] = {}
    for each in deployments:
        degrees = " ".join(
            f"{name.upper()}{getattr(each, name)}"
            for name in ("tp", "pp", "cp", "dp")
            if name == "tp" or getattr(each, name) > 1
        )
        options = ", ".join(f"{key} {value}" for key, value in sorted(each.config.items()))
        role = "" if each.role == "both" else f" that only {each.role}"
        found.setdefault(each.model, []).append(
            f"{each.replicas} x {degrees}{role}{f' ({options})' if options else ''}"
        )
    return {model: " and ".join(said) for model, said in found.items()}
