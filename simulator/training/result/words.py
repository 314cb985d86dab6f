"""A simulated iteration in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..plan.graph_words import stage_graph

if TYPE_CHECKING:
    from .iteration import TrainingResult

__all__ = ["explain"]

GIB = 2**30


def explain(result: TrainingResult) -> str:
    """What `TrainingResult.explain` gives."""
    plan = result.plan
    lines = [
        f"{plan.model.name}, {plan.schedule}, {_fed(result)} on {len(plan.meshes)} mesh(es), "
        f"{int(result.devices.sum())} devices: {result.seconds:.4g} s an iteration ({result.engine})",
        f"{result.samples_per_s:.4g} samples/s, {result.pflops:.4g} PFLOP/s, MFU {result.mfu:.1%}, "
        f"bubble {result.bubble:.1%}",
        "",
        f"{'mesh':>4}  {'stages':<10} {'computes':>9} {'sends':>7} {'waits':>7} {'in flight':>9} {'peak GiB':>9}  fits",
    ]
    for mesh in range(result.program.n_meshes):
        stages = [s for s, home in enumerate(result.program.mesh_of) if home == mesh]
        shares = [x[mesh] / result.seconds if result.seconds > 0 else 0.0 for x in _parts(result)]
        peak = float(result.peak_bytes[mesh])
        flying = "+".join(str(result.in_flight[s]) for s in stages)
        lines.append(
            f"{mesh:>4}  {_short(stages):<10} {shares[0]:>9.1%} {shares[1]:>7.1%} {shares[2]:>7.1%} {flying:>9} "
            f"{peak / GIB:>9.2f}  {'yes' if peak <= result.limit_bytes[mesh] else 'NO'}"
        )
    if result.seconds > 0:
        share = result.pipeline_s / result.seconds
        graph = stage_graph(plan).branches or len(set(plan.microbatches_of)) > 1
        name = "Σ t + (K - 1) max t over slices" if plan.slices else f"Eq. 2{' over the longest path' if graph else ''}"
        lines += ["", f"{name} (no communication): {result.pipeline_s:.4g} s, {share:.1%} of it"]
    predicted = plan.predicted.get("seconds")
    if predicted and result.seconds > 0:
        lines.append(f"the plan predicted {predicted:.4g} s ({predicted / result.seconds - 1:+.1%})")
    if not result.fits:
        over = result.fullest
        lines.append(
            f"mesh {over} needs {result.peak_bytes[over] / GIB:.2f} GiB on each device and has "
            f"{result.memory_bytes / GIB:.2f} GiB: it would run out of memory"
        )
    lines += _crossing(result)
    return "\n".join(lines)


def _fed(result: TrainingResult) -> str:
    """How many microbatches, and slices of them, and stages where they form a graph."""
    counts = sorted(set(result.program.microbatches_of))
    said = f"{' to '.join(map(str, (counts[0], counts[-1])[: len(counts)]))} microbatches"
    slices = sum(len(entry.tokens) * entry.count for entry in result.plan.slices)
    graph = stage_graph(result.plan)
    if graph.branches:
        said = f"{said} through {len(result.plan.stages)} stages in a graph of depth {graph.depth}"
    return f"{said} in {slices} slices" if slices else said


def _parts(result: TrainingResult) -> tuple[np.ndarray, ...]:
    return result.busy_s, result.communication_s, result.waiting_s


def _short(stages: list[int]) -> str:
    text = ",".join(map(str, stages))
    return text if len(text) <= 10 else f"{stages[0]}…{stages[-1]}"


def _crossing(result: TrainingResult) -> list[str]:
    """One line for each pair of stages, the dearest five."""
    rows: list[tuple[float, str]] = []
    for (what, a, b), ways in result.links.reshardings.items():
        link = result.links.links[what, a, b]
        n_bytes = sum(way.n_bytes for _, way in ways)
        sent = sum(way.sent_bytes for _, way in ways)
        once = " once an iteration" if what == "tied" else ""
        methods = "/".join(dict.fromkeys(way.method for _, way in ways))
        seconds, gather_s = float(np.max(link.seconds)), float(np.max(link.gather_s))
        sliced = ", a slice up to" if np.ndim(link.seconds) else ","
        rows.append(
            (
                seconds + gather_s,
                f"  stage {a} -> {b} {what}: {n_bytes / 2**20:.4g} MiB as {sent / 2**20:.4g} MiB sent{once}{sliced} "
                f"{seconds * 1e3:.3g} ms + {gather_s * 1e3:.3g} ms gathering ({methods})",
            )
        )
    rows.sort(key=lambda row: -row[0])
    more = [f"  and {len(rows) - 5} more"] if len(rows) > 5 else []
    return ["", "messages, the longest first:", *(text for _, text in rows[:5]), *more] if rows else []
