"""Headroom: how far measured traffic can grow before the plan that exists misses the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...worlds import Case
from .answer import Answer
from .bisection import Rule, Search
from .kinds import Headroom
from .quantity import Quantity, base_of, given, has_field, number, slo_path, value_of
from .words import answer_of, measured, title

if TYPE_CHECKING:
    from ..study import Study

__all__ = ["answers", "searches"]

NAMES = {"rate": "the rate", "cv": "the CV", "slo": "the SLO"}


def searches(study: Study, question: Headroom) -> tuple[Search, ...]:
    """One for each planner (or the plan file) and quantity.

    Raises
    ------
    InputError
        If there is no measured traffic, or the SLO is to be scaled but comes from the trace.
    """
    base = base_of(study, question)
    if question.plan is not None and not has_field(study, "planner.plan"):
        raise InputError(f"headroom: plan: cases of world {study.world.name!r} name no plan file; leave it out")
    if has_field(study, "workload.rate_scale") and value_of(base, "workload.trace") is None:
        raise InputError(
            "headroom: the base case has no measured traffic; give workload: {trace: FILE}, or ask for the "
            "highest rate instead"
        )
    planners = list(study.planners)[:1] if question.plan is not None else list(study.planners)
    rule = Rule.of(question)
    return tuple(
        Search(planner, quantity, rule, study.replications, study.confidence, first=_today(quantity))
        for planner in planners
        for quantity in _quantities(study, question, base, planner)
    )


def _today(quantity: Quantity) -> tuple[float, ...]:
    return () if quantity.base is None else (quantity.base,)


def _quantities(study: Study, question: Headroom, base: Case, planner: str) -> list[Quantity]:
    fixed = given(study, question)
    traffic = has_field(study, "workload.rate_scale")
    drawn = study.replications > 1 or bool(value_of(base, "workload.resample"))
    frozen: dict[str, Any] = {}
    if question.plan is not None:
        fixed["planner.plan"] = question.plan
    elif traffic and "plan" not in study.planners[planner]:
        as_it_is = value_of(base, "workload.cv_scale") == 1  # else there is nothing but draws to plan for
        frozen = {"seed": study.seed, "workload.resample": not as_it_is}
    found: list[Quantity] = []
    for name in question.of:
        slo = slo_path(study, base)[0]
        path = {"rate": "workload.rate_scale", "cv": "workload.cv_scale", "slo": slo}[name]
        today = value_of(base, path)
        if today is None:
            if "of" not in question.model_fields_set:
                continue
            raise InputError("headroom: of slo needs workload.slo or workload.slo_scale in the base case")
        resampled = {"workload.resample": True} if traffic and (drawn or name == "cv") else {}
        plan = {f"planner.planned_for.{at}": said for at, said in (frozen | {path: today}).items()} if frozen else {}
        found.append(
            Quantity(
                path, f"{{}} × {NAMES[name]} of today", "bears", "low" if name == "slo" else "high",
                today / question.limit, today * question.limit, False, _writer(path), question.tolerance,
                fixed | resampled | plan, today, figure=_relative(today), mend="raise limit",
            )
        )  # fmt: skip
    if not found:
        raise InputError(f"headroom: cases of world {study.world.name!r} have none of {', '.join(question.of)}")
    return found


def _writer(path: str) -> Callable[[float], dict[str, Any]]:
    return lambda value: {path: value}


def _relative(today: float) -> Callable[[float], str]:
    return lambda value: number(value / today)


def answers(study: Study, question: Headroom, done: Sequence[Search]) -> tuple[Answer, ...]:
    """One for each search: how far, and what is attained today."""
    return tuple(_answer(study, question, search) for search in done)


def _answer(study: Study, question: Headroom, search: Search) -> Answer:
    name = {"workload.rate_scale": "rate", "workload.cv_scale": "cv"}.get(search.quantity.name, "slo")
    found = answer_of(search, title(question, f"headroom in {NAMES[name]}"), question.plan or "")
    today = search.quantity.base
    if found.value is None or today not in search.probes or not search.bisection.harder(today, found.value):
        return found
    now = measured(search.rule, search.probes[today])
    return replace(
        found, sentence=f"Today's traffic misses it already ({now}): {found.sentence}",
        short=f"misses it with today's traffic already ({now}): {found.short}",
    )  # fmt: skip
