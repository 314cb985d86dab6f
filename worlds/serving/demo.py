"""The demo of the serving world: measure this machine, plan, simulate, export, run for real, compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ... import traces
from ...errors import InfeasibleError
from ...files import write_text
from ...planners import PLANNERS
from ...profiles import DeviceSpec, ParallelConfig, ProfileSet, save
from ...profiles.measure.models import take_measurement
from ...runtime import Comparison, compare, export
from ...runtime.serving.compare.chart import save_png
from ...simulator import Cluster, Plan, simulate
from ...traces import Trace
from ..demo import DemoAsked, Shown

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


def demo(asked: DemoAsked) -> Shown:
    """The whole loop; profiles, plans, exports, the comparison and two timelines are left in the folder.

    Raises
    ------
    InfeasibleError
        If no planner found a placement.
    RunError
        If a worker process dies.
    """
    out, say, devices, seed = asked.out, asked.say, asked.devices, asked.seed
    say(f"Measuring {', '.join(COUNTS)} on this machine, layer by layer: one core is one device")
    measured, spec = _measured(asked)
    profiles = measured.instances(COUNTS)
    save(measured, out / "profiles.json")
    for name in COUNTS:
        say(f"   {name}: {measured[name].single_device_latency() * 1e3:.1f} ms on one device")
    spec = _small(spec, profiles)
    cluster = Cluster(1, devices, spec)
    history, today = (
        _traffic(profiles, devices, length, seed + k) for k, length in enumerate((HISTORY_S, asked.seconds))
    )
    say(
        f"Planning {len(profiles)} models on {devices} devices of {spec.usable_memory_bytes / 2**20:.0f} MiB "
        f"for bursty traffic: {history.rate:.3g} requests/s, CV {CV:g}, SLO {PLAN_SLO_SCALE:g} x latency"
    )
    found = _planned(cluster, profiles, history, asked)
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
    say("Exporting the winner")
    for target in ("torchrun", "k8s"):
        files = export(plans[winner], target, out / f"export-{target}", force=True)
        say(f"   {target}: {len(files)} files in {out / f'export-{target}'}")
    scales = list(asked.slo_scales)
    say(f"Running {' and '.join(chosen)} for real, {asked.seconds:g} s each at SLO scales {_words(scales)}")
    comparison = compare(chosen, today, profiles, scales, device="cpu", progress=lambda line: say(f"   {line}"))
    document = {"predicted": {name: p.predicted["attainment"] for name, p in found.items()}, "winner": winner}
    written = _left(comparison, winner, len(scales), out)
    return Shown(
        {**document, **_document(comparison)},
        f"{comparison}\n\n{comparison.sentence()}",
        (*written, out / "profiles.json"),
    )


def _words(scales: list[float]) -> str:
    return ",".join(f"{scale:g}" for scale in scales)


def _measured(asked: DemoAsked) -> tuple[ProfileSet, DeviceSpec]:
    found = take_measurement(
        list(COUNTS), "cpu", (1,), (1, 2), (1, 2), seconds=5.0, fast=True, seed=asked.seed,
        progress=lambda share, what: asked.progress(f"{what}, {share:.0%} done"),
    )  # fmt: skip
    return found.profiles, found.device


def _small(spec: DeviceSpec, profiles: ProfileSet) -> DeviceSpec:
    """The device with so little memory that no one of them can hold every model."""
    total = sum(profile.weight_bytes(ParallelConfig())[0] for profile in profiles.values())
    largest = max(profile.weight_bytes(ParallelConfig())[0] for profile in profiles.values())
    usable = int(max(SHARE_ON_ONE_DEVICE * total, largest))
    return replace(spec, name=f"{spec.name}-small", memory_bytes=max(usable, 1), usable_memory_bytes=usable)


def _traffic(profiles: ProfileSet, devices: int, seconds: float, seed: int) -> Trace:
    """Bursty traffic that keeps `LOAD` of the devices busy."""
    mean_s = sum(profile.single_device_latency() for profile in profiles.values()) / len(profiles)
    trace = traces.gamma(LOAD * devices / mean_s, CV, seconds, list(profiles), seed=seed)
    return trace.with_slo_scale(PLAN_SLO_SCALE, profiles)


def _planned(cluster: Cluster, profiles: ProfileSet, history: Trace, asked: DemoAsked) -> dict[str, Any]:
    """What each planner decides; those that find nothing feasible are left out."""
    found: dict[str, Any] = {}
    for name, options in PLANNER_OPTIONS.items():
        try:
            found[name] = PLANNERS[name](
                cluster, tuple(profiles), history, profiles, seed=asked.seed, progress=asked.progress, **options
            )
        except InfeasibleError as error:
            asked.say(f"   {name}: {error}")
        else:
            asked.say(f"   {name:<22} simulated SLO attainment {found[name].predicted['attainment']:7.2%}")
    if not any(isinstance(decided, Plan) for decided in found.values()):
        raise InfeasibleError("demo: no planner found a placement for this machine; take more devices")
    return found


def _baseline(plans: dict[str, Plan], winner: str) -> str | None:
    """The plan to run beside the winner: the paper's baseline if it decided otherwise, else the worst other one."""
    others = [name for name, plan in plans.items() if plan.groups != plans[winner].groups]
    if BASELINE in others:
        return BASELINE
    return min(others, key=lambda name: plans[name].predicted["attainment"], default=None)


def _left(comparison: Comparison, winner: str, n_scales: int, out: Path) -> tuple[Path, ...]:
    """The comparison as table and picture, and the winner's last run beside its simulation."""
    last = comparison.cells[n_scales - 1].result
    table, picture, real, simulated = (
        out / name for name in ("comparison.csv", "attainment.png", "timeline.json", "timeline-simulated.json")
    )
    save_png(comparison, picture)
    last.timeline().to_chrome(real)
    again = simulate(last.placement, last.trace, comparison.measured[winner].service.profiles, overhead=last.overhead)
    again.timeline().to_chrome(simulated)
    write_text(table, comparison.to_frame().to_csv(index=False))
    return table, picture, real, simulated


def _document(comparison: Comparison) -> dict[str, Any]:
    return {
        "cells": comparison.to_frame().to_dict("records"),
        "worst_points": 100 * comparison.worst,
        "mean_points": 100 * comparison.mean_difference,
        "inside": len(comparison.cells) - len(comparison.outside),
        "explained": comparison.explained,
    }
