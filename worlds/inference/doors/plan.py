"""Planning: every operator of a network on the backend where it is fastest; several planners are compared."""

from __future__ import annotations

import json
import time
from typing import Any, cast

import pandas as pd

from ....errors import InfeasibleError, LimitError
from ....profiles.backends.costs import CostTable
from ....runtime.backends import Captured
from ....runtime.backends.registry import DEFAULT
from ...cases import called
from ...door import Answer, Asked
from ...words import table as text_table
from ..case import InferenceCase
from ..data import check_planner, graphs_folder
from ..network import captured_network
from ..options import PlanOptions
from ..plan import InferencePlan
from ..solve import MEASURING, Choice, choose, singles
from .again import ALONE, Again, plan_as_timed, timed_again
from .costs import costs_here
from .measuring import measured_choice

__all__ = ["decided"]


def decided(asked: Asked) -> Answer:
    """Plan with every planner that is named, then time what they chose beside each single backend, in turn.

    The answer's plan is the fastest placement as measured; where a single backend was faster, that backend alone. With
    `again` off it is the fastest as predicted.

    Raises
    ------
    InputError
        On what is wrong with a case, a backend that cannot be used, or costs of something else.
    InfeasibleError
        If no planner finds a placement.
    """
    cases, options = cast("tuple[InferenceCase, ...]", asked.cases), cast(PlanOptions, asked.options)
    for case in cases:
        check_planner(case)
    begun, first = time.monotonic(), cases[0]
    needed = options.again or first.costs is None or any(case.planner.name in MEASURING for case in cases)
    graphs = graphs_folder(options.kept)
    captured = captured_network(first.model, first.workload.batch, asked.folder, graphs) if needed else None
    costs = costs_here(first, asked, captured, options.kept)
    choices: dict[str, Choice] = {}
    failed: dict[str, InfeasibleError | LimitError] = {}
    for case in cases:
        name = called(case.planner)
        asked.progress(name)
        try:
            choices[name] = _choice(case, costs, captured, asked)
        except (InfeasibleError, LimitError) as error:
            failed[name] = error
    if not choices:
        kind = LimitError if any(isinstance(error, LimitError) for error in failed.values()) else InfeasibleError
        raise kind("; ".join(f"{name}: {error}" for name, error in failed.items()))
    alone = {f"{ALONE}{name}": choice for name, choice in singles(costs).items()}
    timed = None
    if options.again and captured is not None:
        asked.progress(f"{len(choices) + len(alone)} placements in turn, {options.rounds} rounds")
        timed = timed_again(captured, (*first.backends, DEFAULT), {**alone, **choices}, options.rounds)
    plans: dict[str, InferencePlan] = {}
    for case in cases:
        name = called(case.planner)
        if name in choices:
            plans[name] = plan_as_timed(case, costs, name, choices[name], alone, timed, begun)
    best = min(plans, key=lambda name: _ms(plans[name]))
    text = [*_table(plans, failed, timed), plans[best].explain(), *plans[best].notes]
    document: dict[str, Any] = {
        "plans": [
            {"planner": name, "predicted": plan.predicted, "measured": plan.measured, "groups": len(plan.groups)}
            for name, plan in plans.items()
        ],
        "failed": {name: str(error) for name, error in failed.items()},
        "best": best,
        "plan": json.loads(plans[best].to_json()),
    }
    return Answer("\n".join(text), document, plans[best], plans[best])


def _choice(case: InferenceCase, costs: CostTable, captured: Captured | None, asked: Asked) -> Choice:
    if case.planner.name not in MEASURING:
        return choose(case, costs)
    assert captured is not None
    return measured_choice(case, costs, captured, asked)


def _ms(plan: InferencePlan) -> float:
    return plan.measured.get("placement", 1e3 * plan.predicted["latency_s"])


def _table(
    plans: dict[str, InferencePlan], failed: dict[str, InfeasibleError | LimitError], timed: Again | None
) -> list[str]:
    rows = [
        {
            "planner": name, "groups": len(plan.groups), "backends": len({group.backend for group in plan.groups}),
            "predicted_ms": 1e3 * plan.predicted["latency_s"], "measured_ms": plan.measured.get("placement"),
        }
        for name, plan in plans.items()
    ]  # fmt: skip
    lines = [text_table(pd.DataFrame(rows)), *(f"{name}: {error}" for name, error in failed.items())]
    if timed is not None:
        alone = ", ".join(
            f"{name.removeprefix(ALONE)} {timed.rounds.median(name):.4g}"
            for name in timed.rounds.ms
            if name.startswith(ALONE)
        )
        lines.append(f"one backend alone, ms: {alone}; a placement beside itself differs by {timed.rounds.noise:.1%}")
    return lines
