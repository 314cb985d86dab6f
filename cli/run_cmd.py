"""`meshwright run`: serve a trace with a plan: for real, here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..worlds.registry import names as worlds
from .real import known_profiles, traffic_for
from .status import status
from .trace_io import print_frame, print_json

__all__ = ["run"]


def run(
    plan: Annotated[Path | None, typer.Argument(help="Plan file.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Trace file.")] = None,
    rate: Annotated[float | None, typer.Option(help="Generate traffic: requests per second, all models.")] = None,
    cv: Annotated[float | None, typer.Option(help="Generated traffic: CV of inter-arrival times; default 1.")] = None,
    duration: Annotated[float | None, typer.Option(help="Generated traffic: seconds; default 30.")] = None,
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
    device: Annotated[str, typer.Option(help="auto (by the plan), cpu (a core is a device) or cuda.")] = "auto",
    max_batch: Annotated[int | None, typer.Option(help="Largest batch; default the plan's.")] = None,
    startup_timeout: Annotated[float, typer.Option(help="Longest start-up of the workers, seconds.")] = 180.0,
    out: Annotated[Path | None, typer.Option(help="Write one row per request (CSV) here.")] = None,
    timeline: Annotated[Path | None, typer.Option(help="Write what ran where and when (Perfetto JSON).")] = None,
    per_model: Annotated[bool, typer.Option("--per-model", help="Print a table by model.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Serve a trace with a plan, for real: a worker process per device, requests at their arrival times."""
    if plan is None:
        raise InputError(f"run: expected a plan file, or a world: {', '.join(worlds())} (got neither)")
    from ..files import check_target, write_text
    from ..runtime import run as serve
    from ..runtime.serving.attribution import stage_ratios
    from ..simulator import Plan

    if max_batch is not None and max_batch < 1:
        raise InputError(f"--max-batch: expected a positive integer (got {max_batch})")
    for target in (out, timeline):
        if target is not None:
            check_target(target)
    loaded = Plan.load(plan)
    traffic, source = traffic_for(
        loaded, profile, trace, slo=slo, slo_scale=slo_scale, rate=rate, cv=cv,
        duration=duration if duration is not None or trace is not None else 30.0, split=split, seed=seed,
    )  # fmt: skip
    with status("running") as say:
        say("starting the workers")
        result = serve(
            loaded, traffic, profiles=known_profiles(loaded, profile), device=device, batching=max_batch,
            startup_timeout_s=startup_timeout,
            progress=lambda now, done, n: say(f"{done} of {n} requests, {now:.0f} of {traffic.duration:.0f} s"),
        )  # fmt: skip
    if out is not None:
        write_text(out, result.to_frame().to_csv(index=False))
    if timeline is not None:
        result.timeline().to_chrome(timeline)
    figures = {
        "attainment": result.attainment if result.has_slo else None,
        "goodput_per_s": result.goodput,
        "mean_latency_s": result.mean_latency,
        "p99_latency_s": result.latency(99),
        "rejected": int(result.rejected.sum()),
        "failed": int(result.failed.sum()),
    }
    if as_json:
        print_json(
            {
                "plan": str(plan),
                "traffic": source,
                "requests": len(traffic),
                **figures,
                "failures": [str(failure) for failure in result.failures],
                "per_model": result.per_model().reset_index().to_dict("records"),
                "stage_time_over_profile": stage_ratios(result).to_dict("records"),
            }
        )
    else:
        typer.echo(f"{len(traffic)} requests in {traffic.duration:.6g} s ({traffic.rate:.4g}/s): {source}")
        typer.echo(
            f"{result.attainment_text}, goodput {result.goodput:.4g}/s, mean latency "
            f"{result.mean_latency * 1e3:.1f} ms, p99 {result.latency(99) * 1e3:.1f} ms, {figures['rejected']} rejected"
            f" ({figures['failed']} failed)"
        )
        typer.echo("\nstage times over the profile's, and the share of them in which the worker had its core")
        print_frame(stage_ratios(result))
        if per_model:
            typer.echo("")
            print_frame(result.per_model().reset_index())
        for written in (out, timeline):
            if written is not None:
                typer.echo(f"written: {written}")
    result.raise_failures()
