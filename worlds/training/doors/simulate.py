"""Simulating: one iteration of training plans: time, bubbles, memory; several are compared."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from ....errors import InputError
from ....files import write_bytes
from ....simulator.plan.reader import problem_line
from ....simulator.training import (
    IterationTimes,
    TrainingPlan,
    TrainingResult,
    simulate_iterations,
    simulate_training,
)
from ....simulator.training.plan.graph import check_slices, known_graph
from ....simulator.training.plan.words import bytes_text, seconds_text
from ...door import Answer, Asked
from ..case import TrainingCase
from ..options import SimulateOptions
from .failing import long_document, long_lines, long_runs

__all__ = ["simulated"]


def simulated(asked: Asked) -> Answer:
    """Simulate one iteration of each.

    Raises
    ------
    InputError
        On what is wrong with the options or the plans.
    """
    options = cast(SimulateOptions, asked.options)
    results: dict[str, TrainingResult] = {}
    for path, file in asked.plans.items():
        plan = _linked(_scheduled(cast(TrainingPlan, file), options.schedule), options)
        graph = known_graph(plan, Path(path)) if plan.slices else None
        if graph is not None:
            check_slices(plan, graph)
        asked.progress(path)
        results[path] = simulate_training(plan, engine=options.engine, resharding=options.resharding)  # pyright: ignore[reportArgumentType]
    first = next(iter(results.values()))
    if options.timeline is not None:
        first.timeline().to_chrome(options.timeline)
    if options.png is not None:
        _draw(first, options.png)
    runs = {path: simulate_iterations(r.plan) for path, r in results.items() if r.plan.service is not None}
    text = first.explain() if len(results) == 1 else "\n".join(_rows(results))
    text = "\n".join([text, *([""] if runs else []), *(_varying(path, one) for path, one in runs.items())])
    long = long_runs(cast(TrainingCase, asked.case), results)
    text = "\n".join([text, *long_lines(long, results)])
    document = {
        "plans": [
            _document(path, result) | _expected(runs.get(path)) | long_document(long.get(path))
            for path, result in results.items()
        ]
    }
    written = tuple(path for path in (options.timeline, options.png) if path is not None)
    return Answer(text, document, first if len(results) == 1 else results, written=written)


def _varying(path: str, runs: IterationTimes) -> str:
    """What is expected of runs of a plan whose times were measured as they vary."""
    low, high = (seconds_text(s) for s in runs.interval_s())
    return (
        f"{path}: times vary as measured: {seconds_text(runs.expected_s())} an iteration in the mean, 95 % of runs of "
        f"{runs.seconds.shape[1]} iterations between {low} and {high}"
    )


def _expected(runs: IterationTimes | None) -> dict[str, Any]:
    return {} if runs is None else {"expected_s": runs.expected_s(), "interval_s": list(runs.interval_s())}


def _scheduled(plan: TrainingPlan, schedule: str | None) -> TrainingPlan:
    """The plan under another schedule; its prediction is for its own and is left out."""
    if schedule is None or schedule == plan.schedule:
        return plan
    try:
        return type(plan).model_validate({**dict(plan), "schedule": schedule, "predicted": {}})
    except ValidationError as error:
        raise InputError(
            "\n".join(f"schedule: {problem_line(e).removeprefix('plan: ')}" for e in error.errors())
        ) from None


def _linked(plan: TrainingPlan, options: SimulateOptions) -> TrainingPlan:
    """The plan with links and buckets as they are asked for."""
    said = {name: getattr(options, name) for name in ("links", "buckets")}
    changed = {name: value for name, value in said.items() if value is not None and value != getattr(plan, name)}
    return plan.model_copy(update=changed) if changed else plan


def _document(path: str, result: TrainingResult) -> dict[str, Any]:
    return {
        "plan": path,
        "engine": result.engine,
        "schedule": result.plan.schedule,
        "links": result.plan.links,
        "seconds": result.seconds,
        "samples_per_s": result.samples_per_s,
        "pflops": result.pflops,
        "mfu": result.mfu,
        "bubble": result.bubble,
        "fits": result.fits,
        "per_mesh": [
            {"mesh": m, "busy_s": float(busy), "communication_s": float(sends), "waiting_s": float(waits),
             "peak_bytes": float(peak)}
            for m, (busy, sends, waits, peak) in enumerate(
                zip(result.busy_s, result.communication_s, result.waiting_s, result.peak_bytes, strict=True)
            )
        ],
        "in_flight": [int(n) for n in result.in_flight],
    }  # fmt: skip


def _rows(results: Mapping[str, TrainingResult]) -> list[str]:
    width = max(len("plan"), *(len(path) for path in results)) + 2
    rows = [
        f"{'plan':<{width}}{'schedule':>18}{'iteration':>12}{'PFLOP/s':>10}{'MFU':>8}{'bubble':>8}{'peak':>12}{'fits':>6}"
    ]
    for path, r in results.items():
        rows.append(
            f"{path:<{width}}{r.plan.schedule:>18}{seconds_text(r.seconds):>12}{r.pflops:>10.4g}{r.mfu:>8.1%}"
            f"{r.bubble:>8.1%}{bytes_text(float(r.peak_bytes.max())):>12}{'yes' if r.fits else 'NO':>6}"
        )
    return rows


def _draw(result: TrainingResult, png: Path) -> None:
    """What every mesh does, and its memory over time."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    timeline = result.timeline()
    figure = Figure(figsize=(10, 0.3 * len(timeline.lanes) + 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[0.3 * len(timeline.lanes) + 0.6, 2.6])
    timeline.plot(upper)
    upper.set_title(
        f"{result.plan.model.name}, {result.plan.schedule}: {result.seconds:.4g} s, bubble {result.bubble:.1%}"
    )
    colours = colormaps["tab20"]
    keys = [Patch(facecolor=colours(k % 20), label=name) for k, name in enumerate(timeline.names)]
    upper.legend(handles=keys, ncols=len(keys), fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.08))
    upper.set_xlabel("")
    memory = result.memory()
    memory.plot(lower)
    most = float(memory.peak.max())
    if most < 0.1 * memory.limit_bytes.min():  # a small model: its lines, not the limit far above them
        lower.set_ylim(0, 1.2 * most / 2**30)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150)
    write_bytes(png, out.getvalue())
