"""Planning: a policy for a shared cluster; several are compared by the worst app's finish-time fairness."""

from __future__ import annotations

import json
import math
from typing import cast

from ....errors import InputError
from ....simulator.sharing import SharingResult, simulate
from ...cases import called
from ...door import Answer, Asked
from ..build import in_file_words, policy_of, world_of
from ..case import SharingCase
from ..data import load_data
from ..measures import measures
from ..plan import SharingPlan
from .words import results_text

__all__ = ["decided"]


def decided(asked: Asked) -> Answer:
    """Simulate every policy; the answer's plan is the one whose largest ρ is smallest.

    Raises
    ------
    InputError
        On what is wrong with a case, or an app that never ends.
    """
    cases = cast("tuple[SharingCase, ...]", asked.cases)
    data = load_data(cases, asked.folder)
    world = world_of(cases[0], data.apps(cases[0]))
    results: dict[str, SharingResult] = {}
    plans: dict[str, SharingPlan] = {}
    for number, case in enumerate(cases, 1):
        name = called(case.planner)
        asked.progress(f"{name}, {number} of {len(cases)}")
        try:
            results[name] = simulate(world, policy_of(case))
        except InputError as error:
            raise in_file_words(error) from None
        known = {key: value for key, value in measures(results[name]).items() if math.isfinite(value)}
        plans[name] = SharingPlan.of(case, asked.name, known)
    best = min(plans, key=lambda name: plans[name].predicted.get("max_rho", math.inf))
    text = results_text("policy", results) if len(cases) > 1 else plans[best].explain()
    document = {
        "plans": [{"planner": name, "predicted": plan.predicted} for name, plan in plans.items()], "best": best,
        "plan": json.loads(plans[best].to_json()),
    }  # fmt: skip
    return Answer(text, document, plans[best], plans[best])
