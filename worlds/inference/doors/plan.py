"""Planning: every operator of a network on the backend where it is fastest; several planners are compared."""

from __future__ import annotations

import json
import time
from typing import Any, cast

import pandas as pd

from ....errors import InfeasibleError, LimitError
from ....profiles.backends.costs import CostTable
from ....runtime.backends.registry import DEFAULT, backends
from ....runtime.collage.placed import Compiler, Unit
from ....runtime.collage.rounds import Rounds, in_rounds
from ...cases import called
from ...door import Answer, Asked
from ...words import table as text_table
from ..case import InferenceCase
from ..data import check_planner, graphs_folder
from ..network import captured_network
from ..options import PlanOptions
from ..plan import InferencePlan
from ..solve import MEASURING, Choice, choose, plan_of, singles
from .costs import costs_here

__all__ = ["decided"]

SINGLE = "alone: "
"""Before a backend's name, where the whole network on it is timed beside placements."""


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
    compiler = None if captured is None else Compiler(captured, backends((*first.backends, DEFAULT)))
    choices: dict[str, Choice] = {}
    failed: dict[str, InfeasibleError | LimitError] = {}
    for case in cases:
        name = called(case.planner)
        asked.progress(name)
        try:
            choices[name] = _choice(case, costs, compiler, asked)
        except (InfeasibleError, LimitError) as error:
            failed[name] = error
    if not choices:
        kind = LimitError if any(isinstance(error, LimitError) for error in failed.values()) else InfeasibleError
        raise kind("; ".join(f"{name}: {error}" for name, error in failed.items()))
    alone = {f"{SINGLE}{name}": choice for name, choice in singles(costs).items()}
    timed = None
    if options.again and compiler is not None:
        asked.progress(f"{len(choices) + len(alone)} placements in turn, {options.rounds} rounds")
        timed = _timed(compiler, {**choices, **alone}, options.rounds)
    plans: dict[str, InferencePlan] = {}
    for case in cases:
        name = called(case.planner)
        if name in choices:
            plans[name] = _plan(case, costs, name, choices[name], alone, timed, begun)
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


def _choice(case: InferenceCase, costs: CostTable, compiler: Compiler | None, asked: Asked) -> Choice:
    if case.planner.name not in MEASURING:
        return choose(case, costs)
    from .measuring import measured_choice

    assert compiler is not None
    return measured_choice(case, costs, compiler, asked)


def _timed(compiler: Compiler, choices: dict[str, Choice], rounds: int) -> Rounds:
    """All placements in turn; those that are the same are timed once, and have the same times."""
    first = {choice.groups: name for name, choice in reversed(choices.items())}
    ways = {
        name: compiler.placed([Unit(backend, nodes) for backend, nodes in groups])
        for groups, name in reversed(first.items())
    }
    found = in_rounds(ways, compiler.captured.example, rounds)
    same = {name: found.ms[first[choice.groups]] for name, choice in choices.items()}
    return Rounds({**found.ms, **same})


def _plan(
    case: InferenceCase, costs: CostTable, name: str, choice: Choice, alone: dict[str, Choice], timed: Rounds | None,
    begun: float,
) -> InferencePlan:  # fmt: skip
    """The plan of a planner; a single backend that was measured to be faster takes its place."""
    if timed is None:
        return plan_of(case, costs, choice, begun=begun)
    measured = {"placement": timed.median(name)} | {one.removeprefix(SINGLE): timed.median(one) for one in alone}
    notes: list[str] = []
    fastest = min(alone, key=timed.median, default=None)
    if fastest is not None and timed.ratio(fastest, name) < 1 and choice.groups != alone[fastest].groups:
        backend, ratio = fastest.removeprefix(SINGLE), timed.ratio(name, fastest)
        notes.append(
            f"{case.planner.called} placed {len(choice.groups)} groups on "
            f"{len(dict.fromkeys(b for b, _ in choice.groups))} backends; measured end to end they take {ratio:.3f}x "
            f"what {backend} takes alone, so {backend} runs all of it"
        )
        choice = Choice(alone[fastest].groups, choice.evaluations, choice.notes)
        measured["placement"], measured["as placed"] = timed.median(fastest), timed.median(name)
    measured["noise"] = timed.noise
    return plan_of(case, costs, choice, begun=begun, measured=measured, notes=notes)


def _ms(plan: InferencePlan) -> float:
    return plan.measured.get("placement", 1e3 * plan.predicted["latency_s"])


def _table(
    plans: dict[str, InferencePlan], failed: dict[str, InfeasibleError | LimitError], timed: Rounds | None
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
            f"{name.removeprefix(SINGLE)} {timed.median(name):.4g}" for name in timed.ms if name.startswith(SINGLE)
        )
        lines.append(f"one backend alone, ms: {alone}; a placement beside itself differs by {timed.noise:.1%}")
    return lines
