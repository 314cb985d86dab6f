"""`ServingGuard`: a placement planned on one draw of the traffic, and scored on others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic import ValidationError

from ....errors import InfeasibleError, InputError, MeshwrightError
from ....planners import PlannerSource, Problem, ScheduledPlan
from ....simulator.metrics import MIN_FOR_P99, tail
from ....simulator.serving import SimulationResult, simulate
from ....simulator.serving.plan.file import Plan
from ....traces.trace import Trace
from ....wording import amiss, dotted
from ...guard import Decided, Guard, Measure, Scores, UnfitError
from ...world import Case
from ..case import PlannerCase, ServingCase
from ..data import ServingData
from ..solve import problem_of
from ..traffic import traffic
from .decision import Decision
from .diff import describe

__all__ = ["ServingGuard"]

IDLE = "no request was served"
OF_THE_CASE = "options of the case"
"""How errors begin that are about options which a planner does not have."""

ONE_DRAW = ("plan_on", "planned_for", "lost_groups")
"""What a planner is told of the traffic elsewhere; here it plans on one draw and others score it."""


class ServingGuard(Guard):
    """Multi-model serving as the gate sees it."""

    measures: ClassVar = {
        "attainment": Measure(True, share=True),
        "goodput": Measure(True, unit="/s", absent=IDLE),
        "mean_latency": Measure(False, unit="ms", scale=1000.0, digits=1, absent=IDLE),
        "p50_latency": Measure(False, unit="ms", scale=1000.0, digits=1, absent=IDLE),
        "p99_latency": Measure(
            False, unit="ms", scale=1000.0, digits=1, absent=f"it needs {MIN_FOR_P99} finished requests"
        ),
    }
    always = ("attainment",)
    scores_again = True
    rivals = (("workload.rate", "workload.trace"), ("workload.slo", "workload.slo_scale"))

    def complaints(self, case: Case) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """Fields of the planner that say which traffic it sees."""
        said = cast(ServingCase, case).planner.model_fields_set
        for name in ONE_DRAW:
            if name in said:
                yield (
                    ("planner", name),
                    "a gate plans on one draw of the traffic and scores on others; leave it out",
                )

    def replanned(self, case: Case, planner: str, folder: Path) -> Case:
        """Another planner, whose file is looked for in the working folder; the case's options where it knows them."""
        asked = cast(ServingCase, case)
        source = PlannerSource.find(planner, Path())
        options = asked.planner.options
        try:
            source.check_options(options)
        except InputError:
            options = {}
        # Shared data looks for files beside the suite; this one's stands where the user does.
        file, separator, function = planner.rpartition(":")
        found = f"{Path(file).resolve()}:{function}" if separator and source.code else planner
        return asked.model_copy(update={"planner": PlannerCase(name=found, options=options)})

    def check(self, plan: Any) -> None:
        """Refuse what is no `Decision`."""
        try:
            Decision.model_validate(plan)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise InputError(f"{dotted(first['loc'])}: {amiss(first)}") from None

    def decide(self, case: Case, shared: Any, foreign: bool = False) -> Decided:
        """Plan on the case's own traffic."""
        problem = problem_of(cast(ServingCase, case), shared)
        try:
            plan = _plan(cast(ServingCase, case), shared, problem, foreign)
        except InfeasibleError as error:
            # A planner that puts too much on a device is told so by the same kind of error that says that nothing can
            # be planned; only the words tell the two apart.
            if str(error).startswith("Placement does not fit"):
                raise UnfitError(str(error)) from error
            raise
        return Decided(_decision(plan).model_dump(mode="json"), plan.planner.evaluations)

    def scores(self, case: Case, plan: Any, shared: Any, seeds: Sequence[int]) -> Scores:
        """All metrics on a trace of each seed, from a stream that no planner sees; measured traffic is resampled."""
        asked, data = cast(ServingCase, case), cast(ServingData, shared)
        decision, problem = Decision.model_validate(plan), problem_of(asked, data)
        try:
            for window in decision.windows:
                window.placement().check(problem.cluster, problem.profiles)
            traces = [traffic(asked.model_copy(update={"seed": seed}), data, "history") for seed in seeds]
            rows = [_score(asked, problem, decision, trace) for trace in traces]
        except MeshwrightError as error:
            raise UnfitError(str(error)) from error
        return {name: tuple(row[name] for row in rows) for name in self.measures}

    def differ(self, old: Any, new: Any) -> str:
        """Groups split, merged or reconfigured, replicas lost, gained and moved."""
        return describe(Decision.model_validate(old), Decision.model_validate(new))


def _plan(case: ServingCase, data: ServingData, problem: Problem, foreign: bool) -> Any:
    """Run the planner. Options of a case are for its own planner: one that takes its place may not know them."""
    if case.planner.plan is not None:
        return data.plans[case.planner.plan]
    source = data.planners[case.planner.name]
    if not foreign:
        return source.plan(problem)
    try:
        return source.plan(problem, where=OF_THE_CASE)
    except InputError as error:
        # A planner whose signature names no options refuses them when it has planned.
        if not (problem.options and str(error).startswith(OF_THE_CASE)):
            raise
    return source.plan(problem_of(case.model_copy(update={"planner": PlannerCase(name=case.planner.name)}), data))


def _decision(plan: Any) -> Decision:
    """What a plan decides.

    Raises
    ------
    MeshwrightError
        If it is no plan, or contradicts itself, such as by a device in two groups.
    """
    if isinstance(plan, Plan):
        plan = Plan.from_json(plan.to_json(), "plan")  # a plan that was changed after it was checked is checked again
    elif not isinstance(plan, ScheduledPlan):
        raise MeshwrightError(f"the planner returned no Plan (got {type(plan).__name__})")
    return Decision.of(plan)


def _score(case: ServingCase, problem: Problem, decision: Decision, trace: Trace) -> dict[str, float | None]:
    result = simulate(
        decision.placement(), trace, problem.profiles, dispatch=problem.dispatch,
        batching=case.serving.max_batch if case.serving.max_batch > 1 else None, admission=problem.admission,
        overhead=problem.overhead,
    )  # fmt: skip
    return _metrics(result.trim(case.warmup) if case.warmup else result)


def _metrics(result: SimulationResult) -> dict[str, float | None]:
    values = {
        "attainment": result.attainment,
        "goodput": result.goodput,
        "mean_latency": result.mean_latency,
        "p50_latency": result.latency(50.0),
        "p99_latency": tail(result.latencies, 99.0).value,
    }
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
