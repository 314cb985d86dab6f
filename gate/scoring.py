"""One case of a suite planned, and its plan scored on traffic that the planner has not seen."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..errors import InfeasibleError, InputError, LimitError, MeshwrightError, RunError
from ..planners import PlannerSource, Problem, ScheduledPlan
from ..seeds import generator
from ..simulator.metrics import MIN_FOR_P99, tail
from ..simulator.serving import SimulationResult, simulate
from ..simulator.serving.plan.file import Plan
from ..worlds.serving.data import ServingData
from ..worlds.serving.solve import problem_of
from ..worlds.serving.traffic import traffic
from .decision import Decision
from .suite import OBJECTIVES, SuiteCase

__all__ = ["CaseRun", "Scores", "Shared", "no_value", "run_case"]

Scores = Mapping[str, tuple[float | None, ...]]
"""Metric -> its value in every replication; None where it has none (the mean latency of no request)."""

Failure = Literal["infeasible", "invalid", "error"]

FOREIGN = "options of the case"
"""How errors begin that are about options which a planner does not have."""


@dataclass(frozen=True)
class Shared:
    """What all cases are run with; travels once to every worker.

    Parameters
    ----------
    data : ServingData
        Profiles, traces and planners that the suite names.
    planner : PlannerSource, optional
        Plans every case instead of the case's own planner.
    """

    data: ServingData
    planner: PlannerSource | None = None

    def planner_of(self, case: SuiteCase) -> str:
        """The name of who plans a case."""
        return case.planner.name if self.planner is None else self.planner.name


@dataclass(frozen=True)
class CaseRun:
    """What came of one case.

    Parameters
    ----------
    case : str
        Its name.
    planner : str
        Who planned it.
    decision : Decision, optional
        What was decided; None if it failed.
    evaluations : int
        What the planner says that it needed.
    scores : Scores
        Of the decision, on the evaluation traces.
    failure, why
        How planning failed, and why, in a line.
    baseline_scores : Scores, optional
        Of the baseline's decision, on the same traces; None if there is none.
    baseline_why : str
        Why the baseline's decision could not be scored.
    digests : mapping of str to str
        SHA-256 of the profile set and files that the case reads.
    """

    case: str
    planner: str
    decision: Decision | None = None
    evaluations: int = 0
    scores: Scores = field(default_factory=dict[str, "tuple[float | None, ...]"])
    failure: Failure | None = None
    why: str = ""
    baseline_scores: Scores | None = None
    baseline_why: str = ""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])


def run_case(shared: Shared, case: SuiteCase, baseline: Decision | None) -> CaseRun:
    """Plan a case, score the plan, and score the baseline's plan on the same traffic.

    A pure function of its arguments. Whatever goes wrong in planning is an answer, not an error.
    """
    done = CaseRun(case.name, shared.planner_of(case), digests=shared.data.digests_of(case))
    try:
        problem = problem_of(case, shared.data)
        scorer = _Scorer(case, shared.data, problem)
    except MeshwrightError as error:
        return replace(done, failure="error", why=f"the case cannot be set up: {one_line(error)}")
    if baseline is not None:
        done = _with_baseline(done, scorer, baseline)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a planner prints is no part of the report
            plan = _plan(shared, case, problem)
    except Exception as error:
        return replace(done, failure=_kind(error), why=_said(error))
    try:
        decision = _decision(plan)
        scorer.check(decision)
    except MeshwrightError as error:
        return replace(done, failure="invalid", why=one_line(error))
    evaluations = plan.planner.evaluations
    if baseline is not None and decision == baseline and done.baseline_scores is not None:
        return replace(done, decision=decision, evaluations=evaluations, scores=done.baseline_scores)
    try:
        scores = scorer.scores(decision)
    except MeshwrightError as error:
        return replace(done, failure="invalid", why=f"the plan cannot be served: {one_line(error)}")
    return replace(done, decision=decision, evaluations=evaluations, scores=scores)


def _with_baseline(done: CaseRun, scorer: _Scorer, baseline: Decision) -> CaseRun:
    try:
        scorer.check(baseline)
        return replace(done, baseline_scores=scorer.scores(baseline))
    except MeshwrightError as error:
        return replace(done, baseline_why=one_line(error))


def _plan(shared: Shared, case: SuiteCase, problem: Problem) -> Any:
    """Run the planner. Options of a case are for its own planner: one that takes its place may not know them."""
    source = shared.planner
    if source is None and case.planner.plan is not None:
        return shared.data.plans[case.planner.plan]
    if source is None:
        return shared.data.planners[case.planner.name].plan(problem)
    try:
        return source.plan(problem, where=FOREIGN)
    except InputError as error:
        if not (problem.options and str(error).startswith(FOREIGN)):
            raise
    return source.plan(replace(problem, options={}))


def _kind(error: Exception) -> Failure:
    """How planning failed.

    A planner that puts too much on a device is not told so before its plan is made, by the same error that says that
    nothing can be planned; only the words tell the two apart.
    """
    if isinstance(error, InfeasibleError):
        return "invalid" if str(error).startswith("Placement does not fit") else "infeasible"
    return (
        "invalid" if isinstance(error, MeshwrightError) and not isinstance(error, (LimitError, RunError)) else "error"
    )


def _said(error: Exception) -> str:
    return one_line(error) if isinstance(error, MeshwrightError) else f"{type(error).__name__}: {one_line(error)}"


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


class _Scorer:
    """Scores decisions on the evaluation traces of a case: the same ones for every planner.

    Their seeds come from streams of their own, and traffic that was measured is drawn anew, so that no planner has seen
    what it is scored on.
    """

    def __init__(self, case: SuiteCase, data: ServingData, problem: Problem) -> None:
        self._case, self._problem = case, problem
        seeds = [int(generator(case.seed, "gate", "scored", r).integers(2**31)) for r in range(case.replications)]
        self._traces = [traffic(case.model_copy(update={"seed": seed}), data, "history") for seed in seeds]

    def check(self, decision: Decision) -> None:
        """Refuse a decision that cannot be carried out.

        Raises
        ------
        MeshwrightError
            If it breaks memory, or uses devices or models that are not there.
        """
        problem = self._problem
        for window in decision.windows:
            window.placement().check(problem.cluster, problem.profiles)

    def scores(self, decision: Decision) -> Scores:
        """All metrics in all replications."""
        rows = [self._score(decision, r) for r in range(len(self._traces))]
        return {name: tuple(row[name] for row in rows) for name in OBJECTIVES}

    def _score(self, decision: Decision, replication: int) -> dict[str, float | None]:
        p, serving = self._problem, self._case.serving
        result = simulate(
            decision.placement(), self._traces[replication], p.profiles, dispatch=p.dispatch,
            batching=serving.max_batch if serving.max_batch > 1 else None, admission=p.admission, overhead=p.overhead,
        )  # fmt: skip
        return _metrics(result.trim(self._case.warmup) if self._case.warmup else result)


def _metrics(result: SimulationResult) -> dict[str, float | None]:
    values = {
        "attainment": result.attainment,
        "goodput": result.goodput,
        "mean_latency": result.mean_latency,
        "p50_latency": result.latency(50.0),
        "p99_latency": tail(result.latencies, 99.0).value,
    }
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def no_value(metric: str) -> str:
    """Why a metric may have no value."""
    return f"it needs {MIN_FOR_P99} finished requests" if metric == "p99_latency" else "no request was served"


def one_line(error: BaseException) -> str:
    """An error's message without line breaks."""
    return " ".join(str(error).split())[:1000]
