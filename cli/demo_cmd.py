"""`meshwright demo`: what each world shows on this machine, one after the other, in about two minutes."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .status import status
from .trace_io import print_json

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for what the demo leaves behind.")] = Path(
        "demo-out"
    ),
    devices: Annotated[int, typer.Option(help="Cores to use as devices.")] = 2,
    seconds: Annotated[float, typer.Option(help="Length of each real run.")] = 20.0,
    slo_scales: Annotated[str, typer.Option(help="SLO scales of the real runs, with commas.")] = "1.5,3,6",
    seed: Annotated[int, typer.Option(help="Of traffic, planners and weights.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Measure this machine, plan, simulate, export, run for real, and hold the real runs against the simulation."""
    from ..worlds.demo import DemoAsked
    from ..worlds.registry import names, world

    scales = _scales(slo_scales)
    began = time.monotonic()
    step = 0

    def say(text: str) -> None:
        nonlocal step
        if not text.startswith(" "):  # what a step says of itself is indented
            step += 1
            text = f"{step}. {text}"
        if sys.stderr.isatty():
            typer.echo("\r\x1b[2K", nl=False, err=True)  # the line of progress, which is over
        typer.echo(f"[{time.monotonic() - began:4.0f} s] {text}", err=as_json)

    asked = DemoAsked(out, devices, seconds, scales, seed, say)
    scripts = {name: script for name in names() if (script := getattr(world(name), "demo", None)) is not None}
    document: dict[str, Any] = {}
    written: list[Path] = []
    for name, script in scripts.items():
        with status(name) as tell:
            shown = script(replace(asked, progress=tell))
        if shown is None:
            continue
        document[name] = dict(shown.document)
        written += shown.written
        if shown.text and not as_json:
            typer.echo(f"\n{shown.text}\n")
    if as_json:
        print_json(document)
        return
    typer.echo("")
    for path in written:
        typer.echo(f"written: {path}")
    typer.echo(f"done in {time.monotonic() - began:.0f} s; open the timelines in https://ui.perfetto.dev")


def _scales(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in text.split(","))
    except ValueError:
        found = (math.nan,)
    if not all(math.isfinite(scale) for scale in found):
        raise InputError(f"--slo-scales: expected numbers with commas, like 1,2,5 (got {text!r})")
    return found
