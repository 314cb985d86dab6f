"""`meshwright simulate`: score one plan or several on a trace in simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .status import status
from .trace_io import print_frame, print_json
from .workload import check_device, check_models, profiles_for, trace_from, warn_of_hopeless

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..profiles import ModelProfile
    from ..simulator import Plan, SimulationResult

__all__ = ["simulate"]


def simulate(
    plans: Annotated[list[Path], typer.Argument(help="Plan file(s); several are compared on the same traffic.")],
    trace: Annotated[Path | None, typer.Option(help="Trace file.")] = None,
    rate: Annotated[float | None, typer.Option(help="Generate traffic: requests per second, all models.")] = None,
    cv: Annotated[float | None, typer.Option(help="Generated traffic: CV of inter-arrival times; default 1.")] = None,
    duration: Annotated[float | None, typer.Option(help="Generated traffic: seconds; default 300.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Generated traffic: uniform, power_law:EXPONENT or shares with commas.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the traffic, >= 0.")] = 0,
    slo_scale: Annotated[float | None, typer.Option(help="SLO as a multiple of single-device latency.")] = None,
    slo: Annotated[
        float | None, typer.Option(help="SLO of every request, seconds; by default the trace's or the plan's.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Profile set or file; by default the costs that the plan carries.")
    ] = None,
    engine: Annotated[str, typer.Option(help="compiled, or simpy (the reference).")] = "compiled",
    dispatch: Annotated[
        str | None, typer.Option(help="shortest_queue, earliest_finish or earliest_free; default the plan's.")
    ] = None,
    max_batch: Annotated[int | None, typer.Option(help="Largest batch; default the plan's.")] = None,
    admission: Annotated[
        bool | None, typer.Option("--admission/--no-admission", help="Reject hopeless requests; default the plan's.")
    ] = None,
    overhead: Annotated[float | None, typer.Option(help="Seconds added to every finish; default the plan's.")] = None,
    warmup: Annotated[float, typer.Option(help="Seconds at both ends of the trace that metrics leave out.")] = 0.0,
    per_model: Annotated[bool, typer.Option("--per-model", help="Print a table by model.")] = False,
    per_group: Annotated[bool, typer.Option("--per-group", help="Print a table by group.")] = False,
    timeline: Annotated[
        Path | None, typer.Option(help="Write what ran where and when (Perfetto JSON; one plan only).")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Draw latencies and utilization into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Score a plan, or several on the same traffic, in simulation."""
    from ..files import check_target
    from ..simulator import Plan
    from ..simulator import simulate as run

    if timeline is not None and len(plans) > 1:
        raise InputError(f"--timeline: shows one plan (got {len(plans)})")
    if not warmup >= 0:
        raise InputError(f"--warmup: expected seconds >= 0 (got {warmup})")
    if max_batch is not None and max_batch < 1:
        raise InputError(f"--max-batch: expected a positive integer (got {max_batch})")
    for target in (timeline, png):
        if target is not None:
            check_target(target)
    if slo is not None and slo_scale is not None:
        raise InputError("--slo, --slo-scale: give one of the two: seconds, or a multiple of single-device latency")
    loaded = {str(path): Plan.load(path) for path in plans}
    first = next(iter(loaded.values()))
    names = tuple(m.name for m in first.models)
    for path, plan in loaded.items():
        if {m.name for m in plan.models} != set(names):
            raise InputError(f"{path}: serves other models than {plans[0]}; compare plans for the same models")
    slo_base = profiles_for(names, _base(first, profile)) if slo_scale is not None else None
    traffic, source = trace_from(
        trace, slo_base, names, rate=rate, cv=cv, duration=duration, split=split, seed=seed, slo_scale=slo_scale,
        slo=slo, default_scale=None,
    )  # fmt: skip
    check_models(traffic, names, source)
    known = {m.name: m.slo_s for m in first.models if m.slo_s is not None}
    if trace is None and slo is None and slo_scale is None and set(known) == set(names):
        traffic, source = traffic.with_slo(known), f"{source}, SLOs of {plans[0]}"
    costs = {path: _costs(plan, path, profile) for path, plan in loaded.items()}
    for path, plan in loaded.items():
        held = {name: [g.config for g in plan.groups if name in g.models] for name in plan.placement.models}
        warn_of_hopeless(traffic, costs[path], held, "" if len(loaded) == 1 else f"{path}: ")
    with status("simulating"):
        results = {
            path: run(
                plan.placement,
                traffic,
                costs[path],
                engine=engine,
                dispatch=dispatch or plan.serving.dispatch,
                batching=_batching(max_batch or plan.serving.max_batch),
                admission=plan.serving.admission if admission is None else admission,
                overhead=plan.serving.overhead_s if overhead is None else overhead,
            )
            for path, plan in loaded.items()
        }
    if warmup > 0:
        results = {path: result.trim(warmup) for path, result in results.items()}
    if timeline is not None:
        next(iter(results.values())).timeline().to_chrome(timeline)
    if png is not None:
        _draw(results, png)
    if as_json:
        print_json(
            {"traffic": source, "requests": len(traffic), "plans": [_document(p, r) for p, r in results.items()]}
        )
        return
    typer.echo(f"{len(traffic)} requests in {traffic.duration:.6g} s ({traffic.rate:.4g}/s): {source}")
    _print(results)
    for path, result in results.items():
        for wanted, frame in ((per_group, result.per_group), (per_model, result.per_model)):
            if wanted:
                typer.echo(f"\n{path}")
                print_frame(frame().reset_index())
    for written in (timeline, png):
        if written is not None:
            typer.echo(f"written: {written}")


def _base(plan: Plan, profile: str | None) -> str:
    """The profile set whose single-device latencies SLO scales multiply."""
    from ..profiles import shipped

    name = profile or plan.profile.partition("/")[0]
    if profile is None and name not in shipped():
        raise InputError(
            f"--slo-scale: needs the single-device latencies of profile {plan.profile!r}; give its file as --profile"
        )
    return name


def _costs(plan: Plan, path: str, profile: str | None) -> Mapping[str, ModelProfile]:
    """The costs to simulate with: the plan's own, or those of a profile set for the plan's device."""
    own = plan.planned_profiles()
    if profile is None:
        plan.validate_for(plan.cluster_spec, own)
        return own
    given = profiles_for((m.name for m in plan.models), profile)
    check_device(given, plan.cluster.device.name)
    cells = [(name, group.config) for group in plan.groups for name in group.models]
    other = [(name, c) for name, c in cells if given[name].latency(c) != own[name].latency(c)]
    if other:
        typer.echo(
            f"warning: {path}: was planned with other latencies than {profile} holds ({other[0][0]}, {other[0][1]}"
            f"{f' and {len(other) - 1} more' if len(other) > 1 else ''}); simulated with the latter",
            err=True,
        )
    return given


def _batching(max_batch: int) -> int | None:
    return None if max_batch == 1 else max_batch


def _metrics(result: SimulationResult) -> dict[str, float | None]:
    return {
        "attainment": result.attainment if result.has_slo else None,
        "goodput_per_s": result.goodput,
        "mean_latency_s": result.mean_latency,
        "p50_latency_s": result.latency(50),
        "p99_latency_s": result.latency(99),
        "rejected": int(result.rejected.sum()),
    }


def _document(path: str, result: SimulationResult) -> dict[str, Any]:
    return {
        "plan": path,
        "engine": result.engine,
        "dispatch": result.dispatch,
        **_metrics(result),
        "per_group": result.per_group().reset_index().to_dict("records"),
        "per_model": result.per_model().reset_index().to_dict("records"),
    }


def _print(results: dict[str, SimulationResult]) -> None:
    width = max(len("plan"), *(len(path) for path in results)) + 2
    typer.echo(
        f"{'plan':<{width}}{'attainment':>11}{'goodput/s':>11}{'mean ms':>9}{'p50 ms':>9}{'p99 ms':>9}{'rejected':>10}"
    )
    for path, result in results.items():
        seconds = (result.mean_latency, result.latency(50), result.latency(99))
        latencies = "".join(f"{s * 1e3:>9.1f}" for s in seconds)
        attained = f"{result.attainment:>11.2%}" if result.has_slo else f"{'no SLO':>11}"
        rejected = int(result.rejected.sum())
        typer.echo(f"{path:<{width}}{attained}{result.goodput:>11.4g}{latencies}{rejected:>10}")


def _draw(results: dict[str, SimulationResult], png: Path) -> None:
    """Latency distribution and utilization over time of each plan."""
    import io

    import numpy as np
    from matplotlib.figure import Figure

    from ..files import write_bytes

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
