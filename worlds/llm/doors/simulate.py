"""Simulating: LLM plans, several on the same requests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from ....errors import InputError
from ....simulator.llm import LLMPlan, LLMPlanResult, LLMTrace
from ....simulator.llm.forecast import Forecast
from ...door import Answer, Asked
from ...words import table
from ..case import LLMCase
from ..conditions.befalling import fleet_figures, fleet_lines, over_failures, scored
from ..data import load_data
from ..demands import demands_of
from ..links import link_lines
from ..options import SimulateOptions
from ..solve import as_said, tables_of
from ..varying import forecast_plan, times_of
from ..ways import over_ways
from .steps import linked_words, steps_of

__all__ = ["simulated"]

ENGINES: Mapping[str, str] = {"compiled": "fast", "simpy": "simpy"}
"""What a person says -> what `simulate_plan` is asked for: compiled, where that can be."""


def simulated(asked: Asked) -> Answer:
    """Simulate and compare.

    Raises
    ------
    InputError
        On what is wrong with the case or the plans.
    """
    options, case = cast(SimulateOptions, asked.options), cast(LLMCase, asked.case)
    plans = cast("Mapping[str, LLMPlan]", asked.plans)
    first, *others = plans
    names = {m.name for m in plans[first].models}
    for path in others:
        if {m.name for m in plans[path].models} != names:
            raise InputError(f"{path}: serves other models than {first}; compare plans for the same models")
    data = load_data([case], asked.folder)
    tables = tables_of(case, data)
    demands = demands_of(case, data)

    def drawn(said: LLMCase) -> dict[str, LLMTrace]:
        return {demand.name: demand.traffic.trace(said.seed) for demand in demands_of(said, data)}

    plans = {path: as_said(plan, case, data, plans[first]) for path, plan in plans.items()}

    def served(plan: LLMPlan, given: Mapping[str, LLMTrace]) -> LLMPlanResult:
        return failing(plan, given, case.seed)

    def failing(plan: LLMPlan, given: Mapping[str, LLMTrace], seed: int) -> LLMPlanResult:
        return scored(
            plan, given, case, data.scripts, tables=tables, seed=seed, engine=ENGINES[options.engine]
        )  # fmt: skip

    requests = drawn(case)
    times = times_of(case, asked.folder)
    asked.progress("simulating")
    results = {path: served(plan, requests) for path, plan in plans.items()}
    ways = {} if not case.workload.clients.unknown else {
        path: over_ways(case, drawn, partial(served, plan)) for path, plan in plans.items()
    }  # fmt: skip
    forecasts = {} if times.constant else {
        path: forecast_plan(plan, requests, case, times, tables=tables, engine=ENGINES[options.engine])
        for path, plan in plans.items()
    }  # fmt: skip
    if case.failures.random:
        forecasts = {
            path: over_failures(partial(failing, plan, requests), case.draws, case.seed) for path, plan in plans.items()
        }
    count = sum(map(len, requests.values()))
    last = max(float(t.arrival[-1]) for t in requests.values())
    source = "; ".join(dict.fromkeys(demand.traffic.source for demand in demands))
    per_second = f" ({count / last:.4g}/s)" if last > 0 else ""
    steps = {path: steps_of(result, tables) for path, result in results.items()}
    links = {path: link_lines(result.plan, case, data, tables) for path, result in results.items()}
    text = [*linked_words(links, steps), f"{count} requests in {last:.6g} s{per_second}: {source}", *_rows(results)]
    text += [
        f"{path}: {name}: a step takes its time {step.band.explain()}"
        for path in steps
        for name, step in steps[path].items()
    ]
    for path, result in results.items():
        text += [f"{path}: {name}: {v}" for name, judged in result.judgements.items() for v in judged.verdicts]
        text += fleet_lines(result, path)
    for path, found in ways.items():
        first, *rest = found.lines()
        text += [f"{path}: {first}", *rest]
    for path, told in forecasts.items():
        text += ["", *_interval(path, told)]
    for path, result in results.items():
        for wanted, frame in ((options.per_group, result.per_deployment), (options.per_model, result.per_model)):
            if wanted:
                text += ["", path, table(frame().reset_index())]
    document = {
        "traffic": source,
        "requests": count,
        "plans": [
            _document(p, r, forecasts.get(p))
            | ({"over_ways": ways[p].to_dict()} if p in ways else {})
            | {
                "step_error_share": {n: s.band.share for n, s in steps[p].items()},
                "step_sent_share": {n: s.sent for n, s in steps[p].items()},
                "links": links[p],
            }
            for p, r in results.items()
        ],
    }
    value = next(iter(results.values())) if len(results) == 1 else results
    return Answer("\n".join(text), document, value)


def _interval(path: str, told: Forecast) -> list[str]:
    """Expectation and interval of each figure."""
    rows = [f"{path}: {told.draws} draws", f"{'':<14}{'expected':>11}{f'{told.coverage:.0%} of runs':>26}"]
    for name, (low, high) in told.intervals():
        scale, unit = (1e3, "ms") if name[:4] in ("ttft", "tpot") else (1.0, "/s") if "put" in name else (1e2, "%")
        rows.append(
            f"{name:<14}{scale * told.expected(name):>11.4g}{scale * low:>12.4g} to {scale * high:>10.4g} {unit}"
        )
    return rows


def _document(path: str, result: LLMPlanResult, told: Forecast | None) -> dict[str, Any]:
    fleets = {name: fleet_figures(r.fleet) for name, r in result.results.items() if r.fleet is not None}
    return {
        "plan": path,
        **({} if told is None else {"forecast": told.to_dict()}),
        "engine": result.made_by,
        **({"fleet": fleets} if fleets else {}),
        **result.summary(),
        **({} if result.has_limits else {"attainment": None}),
        "objectives": {
            name: [
                {"objective": str(v.objective), "value_s": v.value_s, "share": v.share, "met": v.met}
                for v in judged.verdicts
            ]
            for name, judged in result.judgements.items()
        },
        # A table of pandas says the same, and takes a second to load.
        "per_model": [{"model": name, **row} for name, row in result.figures().items()],
        "per_deployment": [{"deployment": name, **row} for name, row in result.deployment_figures().items()],
    }


def _rows(results: Mapping[str, LLMPlanResult]) -> list[str]:
    width = max(len("plan"), *(len(path) for path in results)) + 2
    rows = [
        f"{'plan':<{width}}{'devices':>8}{'attainment':>12}{'goodput/s':>11}{'TTFT p50':>10}{'p90 ms':>9}"
        f"{'TPOT p50':>10}{'p90 ms':>9}{'preempted':>11}"
    ]
    for path, result in results.items():
        ttft, tpot = result.percentiles("ttft", (50, 90)), result.percentiles("tpot", (50, 90))
        cells = "".join(f"{x * 1e3:>10.1f}{y * 1e3:>9.1f}" for x, y in (ttft, tpot))
        preempted = sum(int(r.preemptions.sum()) for r in result.results.values())
        attained = f"{result.attainment:>12.2%}" if result.has_limits else f"{'no SLO':>12}"
        rows.append(
            f"{path:<{width}}{len(result.plan.used_devices):>8}{attained}{result.goodput:>11.4g}{cells}{preempted:>11}"
        )
    return rows
