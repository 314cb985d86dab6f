"""`meshwright simulate` of training plans: time, bubbles, memory; several are compared."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError
from .trace_io import print_json

if TYPE_CHECKING:
    from ..simulator.training import TrainingPlan, TrainingResult

__all__ = ["simulate_training_plans", "training_plans"]

ENGINES = ("compiled", "simpy")


def training_plans(plans: list[Path]) -> bool:
    """Whether the files are training plans.

    Raises
    ------
    InputError
        If only some are.
    """
    from ..simulator.training.plan.file import TrainingPlan

    found = [TrainingPlan.is_one(path) for path in plans]
    if any(found) and not all(found):
        raise InputError(
            f"{plans[found.index(False)]}: is no training plan, {plans[found.index(True)]} is one; compare plans of "
            "one kind"
        )
    return any(found)


def simulate_training_plans(
    plans: list[Path],
    *,
    engine: str,
    schedule: str | None,
    resharding: str | None,
    timeline: Path | None,
    png: Path | None,
    as_json: bool,
) -> None:
    """Simulate one iteration of each and print.

    Raises
    ------
    InputError
        On what is wrong on the command line or in the files.
    """
    from ..files import check_target
    from ..simulator.training import TrainingPlan, simulate_training
    from ..simulator.training.plan.graph import check_slices, known_graph

    if engine not in ENGINES:
        raise InputError(f"--engine: expected compiled or simpy (got {engine!r})")
    for name, target in (("timeline", timeline), ("png", png)):
        if target is not None:
            check_target(target)
            if len(plans) > 1:
                raise InputError(f"--{name}: shows one plan (got {len(plans)})")
    results: dict[str, TrainingResult] = {}
    for path in plans:
        plan = _scheduled(TrainingPlan.load(path), schedule)
        graph = known_graph(plan, path) if plan.slices else None
        if graph is not None:
            check_slices(plan, graph)
        results[str(path)] = simulate_training(plan, engine=engine, resharding=resharding)  # pyright: ignore[reportArgumentType]
    first = next(iter(results.values()))
    if timeline is not None:
        first.timeline().to_chrome(timeline)
    if png is not None:
        _draw(first, png)
    if as_json:
        print_json({"plans": [_document(path, result) for path, result in results.items()]})
        return
    if len(results) == 1:
        typer.echo(first.explain())
    else:
        _print(results)
    for written in (timeline, png):
        if written is not None:
            typer.echo(f"written: {written}")


def _scheduled(plan: TrainingPlan, schedule: str | None) -> TrainingPlan:
    """The plan under another schedule; its prediction is for its own and is left out."""
    if schedule is None or schedule == plan.schedule:
        return plan
    from pydantic import ValidationError

    from ..simulator.plan.reader import problem_line

    try:
        return type(plan).model_validate({**dict(plan), "schedule": schedule, "predicted": {}})
    except ValidationError as error:
        raise InputError(
            "\n".join(f"--schedule: {problem_line(e).removeprefix('plan: ')}" for e in error.errors())
        ) from None


def _document(path: str, result: TrainingResult) -> dict[str, Any]:
    return {
        "plan": path,
        "engine": result.engine,
        "schedule": result.plan.schedule,
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


def _print(results: Mapping[str, TrainingResult]) -> None:
    from ..simulator.training.plan.words import bytes_text, seconds_text

    width = max(len("plan"), *(len(path) for path in results)) + 2
    typer.echo(
        f"{'plan':<{width}}{'schedule':>18}{'iteration':>12}{'PFLOP/s':>10}{'MFU':>8}{'bubble':>8}{'peak':>12}{'fits':>6}"
    )
    for path, r in results.items():
        typer.echo(
            f"{path:<{width}}{r.plan.schedule:>18}{seconds_text(r.seconds):>12}{r.pflops:>10.4g}{r.mfu:>8.1%}"
            f"{r.bubble:>8.1%}{bytes_text(float(r.peak_bytes.max())):>12}{'yes' if r.fits else 'NO':>6}"
        )


def _draw(result: TrainingResult, png: Path) -> None:
    """What every mesh does, and its memory over time."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from ..files import write_bytes

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
    if most < 0.1 * memory.limit_bytes:  # a small model: its lines, not the limit far above them
        lower.set_ylim(0, 1.2 * most / 2**30)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150)
    write_bytes(png, out.getvalue())
