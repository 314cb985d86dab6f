"""Simulating: placements, several on the same traffic."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from ....errors import InputError
from ....files import write_bytes
from ....profiles import ModelProfile
from ....profiles.spread import Variation
from ....seeds import spawned
from ....simulator import Plan, SimulationResult, simulate
from ....simulator.serving.breakdowns import Breakdowns
from ....simulator.serving.conditions import Conditions
from ....simulator.serving.forecast import Forecast, over_draws
from ....simulator.serving.times import times_of
from ....traces.trace import Trace
from ...door import Answer, Asked
from ...words import table
from ..case import ServingCase
from ..conditions.failing import breakdowns_of, with_files
from ..conditions.scaled import repairs_of, scaling_of
from ..conditions.varying import cautious, variation_of
from ..measures import used
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
    varying = {path: variation_of(case, one) for path, one in costs.items()}
    case, scripts = with_files(case, asked.folder)
    breakdowns = breakdowns_of(case.failures, case.loading, scripts)
    results: dict[str, SimulationResult] = {}
    spread: dict[str, Forecast] = {}
    for path, plan in plans.items():
        known, variation = cautious(case, costs[path], varying[path])
        overhead = float(getattr(costs[path], "overhead_s", plan.serving.overhead_s))  # what a plan carries has none
        met = _conditions(variation, breakdowns, plan, traffic, costs[path], case)
        serve = _serves(plan, traffic, known, overhead, case, options.engine, met)
        seed = case.seed
        if not variation.constant or case.failures.random:
            spread[path] = over_draws(serve, draws=case.serving.draws, seed=case.seed)
            seed = spawned(case.seed, spread[path].middle)
        results[path] = serve(seed)
    written = tuple(path for path in (options.timeline, options.png) if path is not None)
    if options.timeline is not None:
        results[first].timeline().to_chrome(options.timeline)
    if options.png is not None:
        _draw(results, options.png)
    text = [f"{len(traffic)} requests in {traffic.duration:.6g} s ({traffic.rate:.4g}/s): {source}"]
    text += _rows(results, spread)
    if spread:
        level = next(iter(spread.values())).level
        text.append(f"means and {level:.0%} intervals over {case.serving.draws} draws of what varies")
    text += _used(results)
    for path, result in results.items():
        for wanted, frame in ((options.per_group, result.per_group), (options.per_model, result.per_model)):
            if wanted:
                text += ["", path, table(frame().reset_index())]
    rows = [_document(path, result, spread.get(path)) for path, result in results.items()]
    document = {"traffic": source, "requests": len(traffic), "plans": rows}
    return Answer("\n".join(text), document, results[first] if not others else results, written=written)


def _conditions(
    variation: Variation,
    breakdowns: Breakdowns | None,
    plan: Plan,
    traffic: Trace,
    costs: Mapping[str, ModelProfile],
    case: ServingCase,
) -> Callable[[int], Conditions | None]:
    """What happens in the run of a seed."""

    rule = scaling_of(case.scaling, plan.placement, plan.cluster_spec, costs, case.loading)
    breakdowns = repairs_of(breakdowns, rule)

    def met(seed: int) -> Conditions | None:
        times = times_of(variation, plan.placement, traffic, seed)
        if breakdowns is None:
            return None if times is None and rule is None else Conditions(times, scaling=rule)
        horizon_s = float(traffic.arrival[-1])
        return Conditions(times, breakdowns.outages(plan.placement, plan.cluster_spec, costs, horizon_s, seed), rule)

    return met


def _serves(
    plan: Plan, traffic: Trace, costs: Mapping[str, ModelProfile], overhead: float, case: ServingCase, engine: str,
    met: Callable[[int], Conditions | None],
) -> Callable[[int], SimulationResult]:  # fmt: skip
    """Simulates under a seed as the plan says it is served, but for what the case says."""
    said, planned = case.serving.model_fields_set, plan.serving
    max_batch = case.serving.max_batch if "max_batch" in said else planned.max_batch
    extra = case.serving.overhead if "overhead" in said else None

    def serve(seed: int) -> SimulationResult:
        result = simulate(
            plan.placement, traffic, costs, engine=engine, batching=None if max_batch == 1 else max_batch,
            dispatch=case.serving.dispatch if "dispatch" in said else planned.dispatch,
            admission=case.serving.admission if "admission" in said else planned.admission,
            overhead=overhead if extra is None else extra, conditions=met(seed),
        )  # fmt: skip
        return result.trim(case.warmup) if case.warmup > 0 else result

    return serve


def _document(path: str, result: SimulationResult, spread: Forecast | None) -> dict[str, Any]:
    drawn_ = {} if spread is None else {
        "draws": len(spread.attainment),
        "expected": {
            name: dict(zip(("mean", "low", "high"), (spread.mean_of(name), *spread.interval_of(name)), strict=True))
            for name in spread.draws
        },
    }  # fmt: skip
    return {
        "plan": path,
        **drawn_,
        **({} if result.uses is None else used(result)),
        "engine": result.engine,
        "dispatch": result.dispatch,
        "attainment": result.attainment if result.has_slo else None,
        "goodput_per_s": result.goodput,
        "mean_latency_s": result.mean_latency,
        "p50_latency_s": result.latency(50),
        "p99_latency_s": result.latency(99),
        "rejected": int(result.rejected.sum()),
        "failed": 0 if result.failed is None else int(result.failed.sum()),
        "per_group": result.per_group().reset_index().to_dict("records"),
        "per_model": result.per_model().reset_index().to_dict("records"),
    }


def _used(results: Mapping[str, SimulationResult]) -> list[str]:
    """Of each plan whose groups are started and drained: the devices that it used."""
    rows: list[str] = []
    for path, result in results.items():
        if result.uses is not None:
            share, begun = used(result), sum(use.from_s > 0 for use in result.uses)
            rows.append(
                f"{path}: {share['device_hours']:.4g} device-hours, {share['mean_devices']:.3g} of "
                f"{result.placement.n_devices} devices in the mean; {begun} starts of groups"
                + (" (simulated by the reference engine)" if result.engine == "simpy" else "")
            )
    return rows


def _rows(results: Mapping[str, SimulationResult], spread: Mapping[str, Forecast]) -> list[str]:
    width = max(len("plan"), *(len(path) for path in results)) + 2
    wide = 28 if spread else 11
    rows = [
        f"{'plan':<{width}}{'attainment':>{wide}}{'goodput/s':>11}{'mean ms':>9}{'p50 ms':>9}{'p99 ms':>9}"
        f"{'rejected':>10}"
    ]
    for path, result in results.items():
        if path in spread:
            rows.append(f"{path:<{width}}{_drawn_row(spread[path], result.has_slo)}")
            continue
        seconds = (result.mean_latency, result.latency(50), result.latency(99))
        latencies = "".join(f"{s * 1e3:>9.1f}" for s in seconds)
        attained = f"{result.attainment:>11.2%}" if result.has_slo else f"{'no SLO':>11}"
        rejected = int(result.rejected.sum())
        rows.append(f"{path:<{width}}{attained}{result.goodput:>11.4g}{latencies}{rejected:>10}")
    return rows


def _drawn_row(spread: Forecast, has_slo: bool) -> str:
    """A plan's row without its name: means, and the interval of the attainment."""
    attained = f"{spread.mean:.2%} ({spread.low:.2%} to {spread.high:.2%})" if has_slo else "no SLO"
    seconds = map(spread.mean_of, ("mean_latency", "p50_latency", "p99_latency"))
    latencies = "".join(f"{s * 1e3:>9.1f}" for s in seconds)
    return f"{attained:>28}{spread.mean_of('goodput'):>11.4g}{latencies}{spread.mean_of('rejected'):>10.0f}"


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
