"""`meshwright demo`: the whole loop on this machine, in about two minutes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InfeasibleError, InputError
from .demo_training import demo_training
from .status import status
from .trace_io import print_json

if TYPE_CHECKING:
    from ..profiles import DeviceSpec, ProfileSet
    from ..runtime import Comparison
    from ..simulator import Plan
    from ..traces import Trace

__all__ = ["demo"]

COUNTS = {"cpu-bert-s": 4, "cpu-gpt-s": 4}
"""Instances of each architecture: eight fine-tuned models."""

LOAD = 0.5
"""Work asked for, as a share of what the devices could do."""

CV = 4.0
PLAN_SLO_SCALE = 4.0
HISTORY_S = 120.0
SHARE_ON_ONE_DEVICE = 0.7
"""Share of all weights that one device is given memory for: no device can hold every model."""

PLANNER_OPTIONS: dict[str, dict[str, Any]] = {
    "alpaserve": {},
    "selective-replication": {},
    "clockwork++": {},
    "round-robin": {"config": "op1pp1"},
}
"""The planners that are compared, and their options; the others need more devices than a small machine has."""

BASELINE = "selective-replication"


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for what the demo leaves behind.")] = Path(
        "demo-out"
    ),
    devices: Annotated[int, typer.Option(help="Cores to use as devices.")] = 2,
    seconds: Annotated[float, typer.Option(help="Length of each real run.")] = 10.0,
    slo_scales: Annotated[str, typer.Option(help="SLO scales of the real runs, with commas.")] = "1.5,3,6",
    seed: Annotated[int, typer.Option(help="Of traffic, planners and weights.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Measure this machine, plan, simulate, export, run for real, and hold the real runs against the simulation."""
    from ..profiles import save
    from ..runtime import compare, export
    from ..runtime.serving.chart import save_png
    from ..simulator import Cluster, simulate
    from .compare_cmd import parse_scales

    if devices < 1 or not seconds > 0:
        raise InputError(f"--devices, --seconds: expected at least 1 and more than 0 (got {devices} and {seconds})")
    scales = parse_scales(slo_scales)
    began = time.monotonic()

    def say(text: str) -> None:
        typer.echo(f"[{time.monotonic() - began:4.0f} s] {text}", err=as_json)

    say(f"1. Measuring {', '.join(COUNTS)} on this machine, layer by layer: one core is one device")
    measured, spec = _measure(seed)
    profiles = measured.instances(COUNTS)
    save(measured, out / "profiles.json")
    for name in COUNTS:
        say(f"   {name}: {measured[name].single_device_latency() * 1e3:.1f} ms on one device")

    spec = _small(spec, profiles)
    cluster = Cluster(1, devices, spec)
    history, today = (_traffic(profiles, devices, length, seed + k) for k, length in enumerate((HISTORY_S, seconds)))
    say(
        f"2. Planning {len(profiles)} models on {devices} devices of {spec.usable_memory_bytes / 2**20:.0f} MiB for "
        f"bursty traffic: {history.rate:.3g} requests/s, CV {CV:g}, SLO {PLAN_SLO_SCALE:g} x latency"
    )
    found = _plan(cluster, profiles, history, seed)
    for name, decided in found.items():
        say(f"   {name:<22} simulated SLO attainment {decided.predicted['attainment']:7.2%}")
    from ..simulator import Plan

    plans = {name: decided for name, decided in found.items() if isinstance(decided, Plan)}
    winner = max(plans, key=lambda name: plans[name].predicted["attainment"])
    chosen = {winner: plans[winner]}
    baseline = _baseline(plans, winner)
    if baseline is not None:
        chosen[baseline] = plans[baseline]
    for name, decided in plans.items():
        decided.save(out / f"plan-{name}.json")
    say(f"   best: {winner}")
    for line in str(plans[winner].placement).splitlines():
        say(f"   {line}")

    say("3. Exporting the winner")
    for target in ("torchrun", "k8s"):
        files = export(plans[winner], target, out / f"export-{target}", force=True)
        say(f"   {target}: {len(files)} files in {out / f'export-{target}'}")

    say(f"4. Running {' and '.join(chosen)} for real, {seconds:g} s each at SLO scales {slo_scales}")
    comparison = compare(chosen, today, profiles, scales, device="cpu", progress=lambda line: say(f"   {line}"))
    last = comparison.cells[len(scales) - 1].result
    say("5. Results")
    save_png(comparison, out / "attainment.png")
    last.timeline().to_chrome(out / "timeline.json")
    simulated = simulate(last.placement, last.trace, comparison.calibrations[winner].profiles, overhead=last.overhead)
    simulated.timeline().to_chrome(out / "timeline-simulated.json")
    _write_table(comparison, out / "comparison.csv")
    if not as_json:
        typer.echo("")
        typer.echo(str(comparison))
        typer.echo("")
    say("6. Training: a small GPT in stages, a process for each device")
    trained = demo_training(out, devices, seed, say)
    if as_json:
        document = _document(comparison, {name: p.predicted["attainment"] for name, p in found.items()}, winner)
        print_json(document | {"training": trained})
        return
    typer.echo("")
    for name in (
        "comparison.csv", "attainment.png", "timeline.json", "timeline-simulated.json", "profiles.json",
        "plan-training.json", "timeline-training.json",
    ):  # fmt: skip
        typer.echo(f"written: {out / name}")
    typer.echo(f"done in {time.monotonic() - began:.0f} s; open the timelines in https://ui.perfetto.dev")


def _measure(seed: int) -> tuple[ProfileSet, DeviceSpec]:
    from ..profiles.measure.models import take_measurement

    with status("measuring") as tell:
        found = take_measurement(
            list(COUNTS), "cpu", (1,), (1, 2), (1, 2), seconds=5.0, fast=True, seed=seed,
            progress=lambda share, what: tell(f"{what}, {share:.0%} done"),
        )  # fmt: skip
    return found.profiles, found.device


def _small(spec: DeviceSpec, profiles: ProfileSet) -> DeviceSpec:
    """The device with so little memory that no one of them can hold every model."""
    from ..profiles import ParallelConfig

    total = sum(profile.weight_bytes(ParallelConfig())[0] for profile in profiles.values())
    largest = max(profile.weight_bytes(ParallelConfig())[0] for profile in profiles.values())
    usable = int(max(SHARE_ON_ONE_DEVICE * total, largest))
    return replace(spec, name=f"{spec.name}-small", memory_bytes=max(usable, 1), usable_memory_bytes=usable)


def _traffic(profiles: ProfileSet, devices: int, seconds: float, seed: int) -> Trace:
    """Bursty traffic that keeps `LOAD` of the devices busy."""
    from .. import traces

    mean_s = sum(profile.single_device_latency() for profile in profiles.values()) / len(profiles)
    trace = traces.gamma(LOAD * devices / mean_s, CV, seconds, list(profiles), seed=seed)
    return trace.with_slo_scale(PLAN_SLO_SCALE, profiles)


def _plan(cluster: Any, profiles: ProfileSet, history: Trace, seed: int) -> dict[str, Any]:
    """What each planner decides; those that find nothing feasible are left out."""
    from ..planners import PLANNERS

    found: dict[str, Any] = {}
    for name, options in PLANNER_OPTIONS.items():
        with status(f"planning with {name}") as tell:
            try:
                found[name] = PLANNERS[name](
                    cluster, tuple(profiles), history, profiles, seed=seed, progress=tell, **options
                )
            except InfeasibleError as error:
                typer.echo(f"       {name}: {error}", err=True)
    if not found:
        raise InfeasibleError("demo: no planner found a placement for this machine; raise --devices")
    return found


def _baseline(plans: dict[str, Plan], winner: str) -> str | None:
    """The plan to run beside the winner: the paper's baseline if it decided otherwise, else the worst other one."""
    others = [name for name, plan in plans.items() if plan.groups != plans[winner].groups]
    if BASELINE in others:
        return BASELINE
    return min(others, key=lambda name: plans[name].predicted["attainment"], default=None)


def _write_table(comparison: Comparison, path: Path) -> None:
    from ..files import write_text

    write_text(path, comparison.to_frame().to_csv(index=False))


def _document(comparison: Comparison, predicted: dict[str, float], winner: str) -> dict[str, Any]:
    return {
        "predicted": predicted,
        "winner": winner,
        "cells": comparison.to_frame().to_dict("records"),
        "worst_points": 100 * comparison.worst,
        "explained": comparison.explained,
    }
