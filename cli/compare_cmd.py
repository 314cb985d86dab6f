"""`meshwright compare`: plans really run, beside what the simulator says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, RunError
from ..worlds.registry import names as worlds
from .real import single_device, traffic_for
from .status import status
from .trace_io import print_json

__all__ = ["compare", "parse_scales"]


def compare(
    plans: Annotated[list[Path] | None, typer.Argument(help="Plan file(s) for the same models.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Trace file.")] = None,
    rate: Annotated[float | None, typer.Option(help="Generate traffic: requests per second, all models.")] = None,
    cv: Annotated[float | None, typer.Option(help="Generated traffic: CV of inter-arrival times; default 1.")] = None,
    duration: Annotated[float, typer.Option(help="Generated traffic: seconds; each cell takes as long.")] = 20.0,
    split: Annotated[
        str | None, typer.Option(help="Generated traffic: uniform, power_law:EXPONENT or shares with commas.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the traffic, >= 0.")] = 0,
    slo_scales: Annotated[str, typer.Option(help="SLO scales, with commas.")] = "0.5,1,1.5,2,3,4,5,10",
    profile: Annotated[str | None, typer.Option(help="Profile set or file that the plans were made with.")] = None,
    device: Annotated[str, typer.Option(help="auto (by the plans), cpu (a core is a device) or cuda.")] = "auto",
    max_batch: Annotated[int, typer.Option(help="Largest batch.")] = 1,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate/--no-calibrate", help="Measure each placement once it runs; else the profile alone."),
    ] = True,
    retries: Annotated[int, typer.Option(help="Run a cell again if others took the workers' cores meanwhile.")] = 0,
    csv: Annotated[Path | None, typer.Option(help="Write the table (CSV) here.")] = None,
    png: Annotated[Path | None, typer.Option(help="Draw attainment over SLO scale into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Hold real runs against the simulation; exit 1 if a cell differs by more than 2 points."""
    if not plans:
        raise InputError(f"compare: expected plan files, or a world: {', '.join(worlds())} (got neither)")
    from ..files import check_target, write_text
    from ..runtime import compare as hold_against
    from ..runtime.serving.chart import save_png
    from ..simulator import Plan

    scales = parse_scales(slo_scales)
    for target in (csv, png):
        if target is not None:
            check_target(target)
    loaded = {str(path): Plan.load(path) for path in plans}
    first = next(iter(loaded.values()))
    for path, plan in loaded.items():
        if {m.name for m in plan.models} != {m.name for m in first.models}:
            raise InputError(f"{path}: serves other models than {plans[0]}; compare plans for the same models")
    if max_batch < 1 or retries < 0:
        raise InputError(f"--max-batch, --retries: expected >= 1 and >= 0 (got {max_batch} and {retries})")
    traffic, source = traffic_for(
        first, profile, trace, slo=None, slo_scale=None, rate=rate, cv=cv,
        duration=duration if trace is None else None, split=split, seed=seed,
    )  # fmt: skip
    with status("comparing") as say:
        found = hold_against(
            loaded, traffic, single_device(first, profile), scales, device=device,
            dispatch=first.serving.dispatch, admission=first.serving.admission, max_batch=max_batch,
            calibrated=calibrate, retries=retries, progress=say,
        )  # fmt: skip
    if csv is not None:
        write_text(csv, found.to_frame().to_csv(index=False))
    if png is not None:
        save_png(found, png)
    if as_json:
        print_json(
            {
                "traffic": source,
                "requests": len(traffic),
                "cells": found.to_frame().to_dict("records"),
                "worst_points": 100 * found.worst,
                "explained": found.explained,
                "calibration": {name: c.explain() for name, c in found.calibrations.items()},
            }
        )
    else:
        typer.echo(f"{len(traffic)} requests in {traffic.duration:.6g} s ({traffic.rate:.4g}/s): {source}\n")
        typer.echo(str(found))
        for written in (csv, png):
            if written is not None:
                typer.echo(f"written: {written}")
    if not found.within:
        raise RunError(
            f"compare: simulated and real attainment differ by up to {100 * found.worst:.1f} points (goal: 2)"
        )


def parse_scales(text: str) -> list[float]:
    """SLO scales from a list with commas."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"--slo-scales: expected numbers with commas, like 1,2,5 (got {text!r})") from None
