"""Simulating: placements, several on the same traffic."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from ....errors import InputError
from ....files import write_bytes
from ....profiles import ModelProfile
from ....simulator import Plan, SimulationResult, simulate
from ....traces.trace import Trace
from ...door import Answer, Asked
from ...words import table
from ..case import ServingCase
from ..options import SimulateOptions
from .costs import costs_of
from .hopeless import warn_of_hopeless
from .requests import requests_for

__all__ = ["simulated"]


def simulated(asked: Asked) -> Answer:
    """Simulate and compare.

    Raises
    ------
    InputError
        On what is wrong with the case or the plans.
    """
    options, case = cast(SimulateOptions, asked.options), cast(ServingCase, asked.case)
    plans = cast("Mapping[str, Plan]", asked.plans)
    first, *others = plans
    names = {m.name for m in plans[first].models}
    for path in others:
        if {m.name for m in plans[path].models} != names:
            raise InputError(f"{path}: serves other models than {first}; compare plans for the same models")
    traffic, source = requests_for(case, plans[first], first, asked.folder)
    costs = {path: costs_of(plan, path, case, asked.folder) for path, plan in plans.items()}
    for path, plan in plans.items():
        held = {name: [g.config for g in plan.groups if name in g.models] for name in plan.placement.models}
        warn_of_hopeless(traffic, costs[path], held, "" if len(plans) == 1 else f"{path}: ")
    asked.progress("simulating")
    results = {path: _result(plan, traffic, costs[path], case, options.engine) for path, plan in plans.items()}
    if case.warmup > 0:
        results = {path: result.trim(case.warmup) for path, result in results.items()}
    written = tuple(path for path in (options.timeline, options.png) if path is not None)
    if options.timeline is not None:
        results[first].timeline().to_chrome(options.timeline)
    if options.png is not None:
        _draw(results, options.png)
    text = [f"{len(traffic)} requests in {traffic.duration:.6g} s ({traffic.rate:.4g}/s): {source}", *_rows(results)]
    for path, result in results.items():
        for wanted, frame in ((options.per_group, result.per_group), (options.per_model, result.per_model)):
            if wanted:
                text += ["", path, table(frame().reset_index())]
    document = {
        "traffic": source, "requests": len(traffic), "plans": [_document(p, r) for p, r in results.items()],
    }  # fmt: skip
    return Answer("\n".join(text), document, results[first] if not others else results, written=written)


def _result(
    plan: Plan, traffic: Trace, costs: Mapping[str, ModelProfile], case: ServingCase, engine: str
) -> SimulationResult:
    """As the plan says it is served, but for what the case says."""
    said, planned = case.serving.model_fields_set, plan.serving
    max_batch = case.serving.max_batch if "max_batch" in said else planned.max_batch
    overhead = case.serving.overhead if "overhead" in said else planned.overhead_s
    return simulate(
        plan.placement, traffic, costs, engine=engine, batching=None if max_batch == 1 else max_batch,
        dispatch=case.serving.dispatch if "dispatch" in said else planned.dispatch,
        admission=case.serving.admission if "admission" in said else planned.admission,
        overhead=planned.overhead_s if overhead is None else overhead,
    )  # fmt: skip


def _document(path: str, result: SimulationResult) -> dict[str, Any]:
    return {
        "plan": path,
        "engine": result.engine,
        "dispatch": result.dispatch,
        "attainment": result.attainment if result.has_slo else None,
        "goodput_per_s": result.goodput,
        "mean_latency_s": result.mean_latency,
        "p50_latency_s": result.latency(50),
        "p99_latency_s": result.latency(99),
        "rejected": int(result.rejected.sum()),
        "per_group": result.per_group().reset_index().to_dict("records"),
        "per_model": result.per_model().reset_index().to_dict("records"),
    }


def _rows(results: Mapping[str, SimulationResult]) -> list[str]:
    width = max(len("plan"), *(len(path) for path in results)) + 2
    rows = [
        f"{'plan':<{width}}{'attainment':>11}{'goodput/s':>11}{'mean ms':>9}{'p50 ms':>9}{'p99 ms':>9}{'rejected':>10}"
    ]
    for path, result in results.items():
        seconds = (result.mean_latency, result.latency(50), result.latency(99))
        latencies = "".join(f"{s * 1e3:>9.1f}" for s in seconds)
        attained = f"{result.attainment:>11.2%}" if result.has_slo else f"{'no SLO':>11}"
        rejected = int(result.rejected.sum())
        rows.append(f"{path:<{width}}{attained}{result.goodput:>11.4g}{latencies}{rejected:>10}")
    return rows


def _draw(results: Mapping[str, SimulationResult], png: Path) -> None:
    """Latency distribution and utilization over time of each plan."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for path, result in results.items():
        label = f"{Path(path).stem} ({f'{result.attainment:.1%}' if result.has_slo else 'no SLO'})"
        latency = np.sort(result.latencies)
        left.plot(latency * 1e3, np.arange(1, len(latency) + 1) / len(result), label=label)
        window = max(result.horizon / 100, 1e-9)
        busy = result.utilization(window)
        right.plot((np.arange(len(busy)) + 0.5) * window, busy, label=label)
    left.set(xlabel="latency (ms)", ylabel="fraction of all requests", ylim=(0, 1))
    right.set(xlabel="time (s)", ylabel="utilization of the devices", ylim=(0, None))
    left.legend()
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150)
    write_bytes(png, out.getvalue())
