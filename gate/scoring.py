"""Plan one case of a suite, and score its plan on traffic that the planner has not seen."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..errors import InfeasibleError, LimitError, MeshwrightError, RunError
from ..reprs import Shown
from ..worlds.guard import Scores
from .suite import SuiteCase

__all__ = ["CaseRun", "Failure", "Kept", "Shared", "run_case"]

Failure = Literal["infeasible", "invalid", "error"]


@dataclass(frozen=True)
class Kept:
    """What the baseline has of a case: its decision, plain data, and the scores of that."""

    plan: Any
    scores: Scores


@dataclass(frozen=True)
class Shared:
    """What all cases are run with; travels once to every worker.

    Parameters
    ----------
    data : mapping of str to any
        World -> what its cases share.
    foreign : bool
        Whether the cases are planned by a planner that the suite does not name.
    """

    data: Mapping[str, Any]
    foreign: bool = False


@dataclass(frozen=True, repr=False)
class CaseRun(Shown):
    """What came of one case.

    Parameters
    ----------
    case : str
        Name of the case.
    planner : str
        Who planned it.
    decision : plain data
        The planner's decision; None if it failed.
    evaluations : int
        Evaluations that the planner says it needed.
    scores : Scores
        Scores of the decision under each seed.
    failure, why
        How planning failed, and why, in a line.
    baseline_scores : Scores, optional
        Of the baseline's decision, under the same seeds; None if there is none.
    baseline_why : str
        Why the baseline's decision could not be scored.
    digests : mapping of str to str
        SHA-256 of what the case reads.
    """

    case: str
    planner: str
    decision: Any = None
    evaluations: int = 0
    scores: Scores = field(default_factory=dict[str, "tuple[float | None, ...]"])
    failure: Failure | None = None
    why: str = ""
    baseline_scores: Scores | None = None
    baseline_why: str = ""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])


def run_case(shared: Shared, case: SuiteCase, kept: Kept | None) -> CaseRun:
    """Plan a case, score the plan, and score the baseline's plan under the same seeds.

    It is a pure function of its arguments. Whatever goes wrong in planning is part of the result, not an error.
    """
    data, guard = shared.data[case.world], case.guard
    done = CaseRun(case.name, case.planner, digests=_digests(shared, case))
    try:
        if kept is not None:
            done = _with_baseline(done, case, data, kept)
        with contextlib.redirect_stdout(sys.stderr):  # what a planner prints is no part of the report
            found = guard.decide(case.case, data, shared.foreign)
    except Exception as error:
        return replace(done, failure=_kind(error), why=_said(error))
    done = replace(done, decision=found.plan, evaluations=found.evaluations)
    # An old plan that is the new one has been scored already; where scoring plans anew, nothing has.
    if guard.scores_again and kept is not None and found.plan == kept.plan and done.baseline_scores is not None:
        return replace(done, scores=done.baseline_scores)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            done = replace(done, scores=guard.scores(case.case, found.plan, data, case.seeds()))
    except Exception as error:
        # A plan that was made and cannot be scored is no valid one; whatever crashes is an error.
        kind = "error" if _kind(error) == "error" else "invalid"
        return replace(done, decision=None, evaluations=0, failure=kind, why=_said(error))
    if not guard.scores_again and kept is not None and found.plan == kept.plan:
        # The same decision under the same seeds: if it scores otherwise, that is no planner's doing.
        return replace(done, baseline_scores=done.scores)
    return done


def _with_baseline(done: CaseRun, case: SuiteCase, data: Any, kept: Kept) -> CaseRun:
    if not case.guard.scores_again:
        return replace(done, baseline_scores=kept.scores)
    try:
        return replace(done, baseline_scores=case.guard.scores(case.case, kept.plan, data, case.seeds()))
    except MeshwrightError as error:
        return replace(done, baseline_why=one_line(error))


def _digests(shared: Shared, case: SuiteCase) -> dict[str, str]:
    """What the case reads; a planner that was named on the command line is no part of the case."""
    found = dict(case.guard.digests(case.case, shared.data[case.world]))
    if shared.foreign:
        name = getattr(getattr(case.case, "planner", None), "name", None)
        found.pop(str(name), None)
    return found


def _kind(error: Exception) -> Failure:
    """How planning failed."""
    if isinstance(error, InfeasibleError):
        return "infeasible"
    ours = isinstance(error, MeshwrightError) and not isinstance(error, (LimitError, RunError))
    return "invalid" if ours else "error"


def _said(error: Exception) -> str:
    return one_line(error) if isinstance(error, MeshwrightError) else f"{type(error).__name__}: {one_line(error)}"


def one_line(error: BaseException) -> str:
    """An error's message without line breaks."""
    return " ".join(str(error).split())[:1000]
