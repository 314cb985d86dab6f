"""`meshwright profile measure`: measure models on this machine and save what planners and simulators need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError

if TYPE_CHECKING:
    from ..profiles.measure.record import Measurement

__all__ = ["measure"]

DEFAULT_MODELS = "cpu-bert-s,cpu-gpt-s,cpu-moe-s"
NOISY = 0.05
"""Share of the cores that other processes may take before the figures are called doubtful."""


def measure(
    models: Annotated[str, typer.Option("--models", "-m", help="Shipped models, with commas.")] = DEFAULT_MODELS,
    device: Annotated[str, typer.Option(help="cpu (one core is one device) or cuda.")] = "cpu",
    batches: Annotated[str, typer.Option(help="Batch sizes, with commas.")] = "1,2,4",
    op: Annotated[str, typer.Option(help="Intra-operator degrees, with commas.")] = "1,2",
    pp: Annotated[str, typer.Option(help="Inter-operator degrees, with commas.")] = "1,2",
    seconds: Annotated[float | None, typer.Option(help="Seconds per model; 15, or 5 with --fast.")] = None,
    seed: Annotated[int, typer.Option(help="Of weights and inputs.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write profiles (JSON) here.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Fewer rounds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Measure models on this machine: layer by layer, the links, and whole stages as the check."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from ..profiles import save
    from ..profiles.measure.models import take_measurement

    names = [name.strip() for name in models.split(",") if name.strip()]
    degrees = {"--batches": batches, "--op": op, "--pp": pp}
    sizes, ops, pps = (_integers(option, text) for option, text in degrees.items())
    if seconds is not None and not seconds > 0:
        raise InputError(f"--seconds: expected more than 0 (got {seconds})")
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("measuring", total=1.0)
        found = take_measurement(
            names,
            device,
            sizes,
            ops,
            pps,
            seconds=seconds,
            fast=fast,
            seed=seed,
            progress=lambda share, what: bar.update(task, completed=share, description=f"measuring: {what}"),
        )
    if out is not None:
        save(found.profiles, out)
    if as_json:
        typer.echo(json.dumps(_document(found), ensure_ascii=False))
        return
    for line in _report(found):
        typer.echo(line)
    if out is not None:
        typer.echo(f"wrote {out}")


def _integers(option: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[1-9]\d*", part) for part in parts):
        raise InputError(f"{option}: expected positive integers with commas, like 1,2,4 (got {text!r})")
    return [int(part) for part in parts]


def _report(found: Measurement) -> Iterable[str]:
    facts, here = found.facts, found.device
    yield f"{facts.name}; {facts.clock}; torch {facts.versions['torch']}; {found.seconds:.0f} s"
    yield (
        f"one device: {here.peak_flops / 1e9:.0f} GFLOP/s, {here.memory_bandwidth_bytes_per_s / 1e9:.1f} GB/s copy, "
        f"{here.usable_memory_bytes / 2**30:.1f} GiB for weights"
    )
    yield ""
    yield "Stages: sum of layers against the stage run whole"
    head = ("model", "config", "batch", "stage", "layers", "sum ms", "whole ms", "error", "hop ms")
    yield from _table(
        head,
        [
            (
                c.model,
                str(c.config),
                str(c.batch),
                str(c.stage),
                f"{c.layers[0]}-{c.layers[1] - 1}",
                f"{c.composed_s * 1e3:.2f}",
                f"{c.measured_s * 1e3:.2f}",
                f"{c.error:+.1%}",
                f"{c.hop_s * 1e3:.2f}" if c.hop_s else "",
            )
            for c in found.checks
        ],
    )
    yield ""
    yield "Interference: a device whose neighbours are busy against one whose neighbours are idle"
    yield from _table(
        ("model", "batch", "idle ms", "busy ms", "busy / idle"),
        [
            (i.model, str(i.batch), f"{i.idle_s * 1e3:.2f}", f"{i.busy_s * 1e3:.2f}", f"{i.slowdown:.3f}")
            for i in found.interference
        ],
    )
    yield ""
    yield "Links"
    for name, model in found.models.items():
        yield f"{name}: {model.comm.source}"
    if found.contention > NOISY:
        yield ""
        yield (
            f"doubtful: other processes took up to {found.contention:.0%} of the cores meanwhile; "
            "measure again on a quiet machine"
        )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _document(found: Measurement) -> dict[str, Any]:
    return {
        "device": found.facts.name,
        "clock": found.facts.clock,
        "versions": found.facts.versions,
        "peak_flops": found.device.peak_flops,
        "memory_bandwidth_bytes_per_s": found.device.memory_bandwidth_bytes_per_s,
        "seconds": found.seconds,
        "contention": found.contention,
        "stages": [
            {
                "model": c.model,
                "config": str(c.config),
                "batch": c.batch,
                "stage": c.stage,
                "layers": list(c.layers),
                "composed_s": c.composed_s,
                "measured_s": c.measured_s,
                "error": c.error,
                "hop_s": c.hop_s,
                "n": c.n,
            }
            for c in found.checks
        ],
        "interference": [
            {"model": i.model, "batch": i.batch, "idle_s": i.idle_s, "busy_s": i.busy_s} for i in found.interference
        ],
        "links": {
            name: {kind: {"bytes": list(s.n_bytes), "seconds": list(s.seconds)} for kind, s in model.links.items()}
            for name, model in found.models.items()
        },
        "profiles_digest": found.profiles.digest(),
    }
