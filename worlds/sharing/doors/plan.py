"""Planning: a policy for a shared cluster. One is taken as it is; several are compared, by the worst app's ρ."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from ....errors import InputError
from ....simulator.forecast import Forecast
from ....simulator.sharing import SharingResult, simulate
from ...cases import called
from ...door import Answer, Asked
from ..build import in_file_words, policy_of, world_of
from ..case import SharingCase
from ..data import load_data
from ..measures import measures
from ..plan import SharingPlan
from ..varying import forecast
from .words import forecasts_text, results_text

__all__ = ["decided"]


def decided(asked: Asked) -> Answer:
    """Check the case; of several policies, simulate every one: the answer's plan is that of the smallest largest ρ, of
    drawn times in the mean over the draws.

    Raises
    ------
    InputError
        On what is wrong with a case, or an app that never ends.
    """
    cases = cast("tuple[SharingCase, ...]", asked.cases)
    data = load_data(cases, asked.folder)
    if len(cases) == 1:  # nothing is to be decided: what it comes to is the simulation's to say
        plan = _plan(cases[0], asked, {})
        return Answer(
            plan.explain(), {"best": called(cases[0].planner), "plan": json.loads(plan.to_json())}, plan, plan
        )
    world = world_of(cases[0], data.apps(cases[0]))
    varies = cases[0].times == "drawn"
    results: dict[str, SharingResult] = {}
    forecasts: dict[str, Forecast] = {}
    plans: dict[str, SharingPlan] = {}
    for number, case in enumerate(cases, 1):
        name = called(case.planner)
        asked.progress(f"{name}, {number} of {len(cases)}")
        try:
            if varies:
                told = forecasts[name] = forecast(case, world, policy_of(case))
                found = {key: told.expected(key) for key in told.runs}
            else:
                results[name] = simulate(world, policy_of(case))
                found = measures(results[name])
        except InputError as error:
            raise in_file_words(error) from None
        known = {key: value for key, value in found.items() if math.isfinite(value)}
        plans[name] = _plan(case, asked, known)
    best = min(plans, key=lambda name: plans[name].predicted.get("max_rho", math.inf))
    document = {
        "plans": [{"planner": name, "predicted": plan.predicted} for name, plan in plans.items()], "best": best,
        "plan": json.loads(plans[best].to_json()),
    }  # fmt: skip
    rows = forecasts_text(forecasts) if varies else results_text("policy", results)
    text = f"{rows}\nthe smallest of the largest rho: {best}"
    return Answer(text, document, plans[best], plans[best])


def _plan(case: SharingCase, asked: Asked, predicted: Mapping[str, float]) -> SharingPlan:
    """The plan of a case; traces in it are named from where we are, as the plan itself is."""
    work = case.workload
    if work is not None and asked.folder != Path():
        names = {name: getattr(work, name) for name in ("trace", "trace_tasks", "trace_instances")}
        moved = {name: str(asked.folder / file) for name, file in names.items() if file is not None}
        case = case.model_copy(update={"workload": work.model_copy(update=moved)}) if moved else case
    return SharingPlan.of(case, asked.name, predicted)
