"""A case's plan simulated with what befalls its engines, once or many times, and what came of that in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....errors import InputError
from ....seeds import spawned
from ....simulator.failures import ScriptedFailure, events_of
from ....simulator.llm import LLMPlan, LLMPlanResult, LLMTrace
from ....simulator.llm.fleet.report import FleetReport
from ....simulator.llm.forecast import Forecast
from ....simulator.llm.plan.conditions import Conditions, ScalingRule
from ....simulator.llm.plan.costs import Tables
from ....simulator.llm.plan.simulate import simulate_plan, simulate_under
from ..case import LLMCase

__all__ = ["conditions_of", "fleet_figures", "fleet_lines", "over_failures", "scored"]

Scripts = Mapping[str, tuple[ScriptedFailure, ...]]


def conditions_of(case: LLMCase, scripts: Scripts) -> Conditions | None:
    """What a case says; None if nothing befalls its engines. `scripts` are the files that were read, by name.

    Raises
    ------
    InputError
        On drawn times beside it.
    """
    f, s, loading = case.failures, case.scaling, case.loading
    if not f.said and s.least is None:
        return None
    if case.times == "drawn":
        raise InputError("times: drawn times beside failures or scaling are not simulated; leave one of them out")
    events: tuple[ScriptedFailure, ...] = ()
    if f.script is not None:
        events = scripts[f.script] if isinstance(f.script, str) else events_of(f.script)
    rule = None if s.least is None or s.load is None else ScalingRule(s.least, s.load, s.by, s.every, s.hold)
    return Conditions(
        f.mtbf, f.mttr, events, loading.start, loading.disk, f.tokens, 0 if f.in_flight == "lost" else f.max_retries,
        f.notice, rule,
    )  # fmt: skip


def scored(
    plan: LLMPlan, requests: Mapping[str, LLMTrace], case: LLMCase, scripts: Scripts, *,
    tables: Tables | None, seed: int, engine: str = "auto", too_long: str = "error",
) -> LLMPlanResult:  # fmt: skip
    """A plan on requests, with what befalls its engines by the case.

    Raises
    ------
    InputError
        On what the plan has not, or what is not simulated.
    """
    met = conditions_of(case, scripts)
    if met is None:
        return simulate_plan(plan, requests, tables=tables, seed=seed, engine=engine, too_long=too_long)
    return simulate_under(plan, requests, met, tables=tables, seed=seed, engine=engine, too_long=too_long)


def over_failures(serve: Callable[[int], LLMPlanResult], draws: int, seed: int) -> Forecast:
    """Figures of a plan over many draws of the failures; `serve` simulates under a seed."""
    runs: list[dict[str, float]] = []
    for k in range(draws):
        result = serve(spawned(seed, k))
        found = {"goodput": result.goodput}
        if result.has_limits:
            found["attainment"] = result.attainment
        for metric in ("ttft", "tpot"):
            found |= {f"{metric}_p{p}": v for p, v in zip((50, 90), result.percentiles(metric, (50, 90)), strict=True)}
        reports = [r.fleet for r in result.results.values() if r.fleet is not None]
        found["availability"] = float(np.mean([r.availability for r in reports]))
        runs.append(found)
    return Forecast({name: np.array([one[name] for one in runs]) for name in runs[0]})


def fleet_figures(report: FleetReport) -> dict[str, Any]:
    """What befell a model's engines: failures, requests sent anew and given up, tokens lost, time served and paid."""
    return {
        "failures": int(report.deaths.sum()),
        "retried": int((report.retries > 0).sum()),
        "given_up": int(report.failed.sum()),
        "lost_tokens": int(report.lost_tokens.sum()),
        "availability": report.availability,
        "engine_hours": report.engine_seconds / 3600,
    }


def fleet_lines(result: LLMPlanResult, path: str) -> list[str]:
    """The same in words, model by model."""
    rows: list[str] = []
    for name, each in result.results.items():
        if each.fleet is None:
            continue
        f = fleet_figures(each.fleet)
        rows.append(
            f"{path}: {name}: {f['failures']} failures of engines; {f['retried']} requests sent anew, "
            f"{f['given_up']} given up, {f['lost_tokens']} tokens lost; engines there for {f['availability']:.2%} of "
            f"their time, {f['engine_hours']:.4g} engine-hours"
        )
    return rows
