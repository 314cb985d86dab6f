"""Running a plan of the configuration search: its decoder trains on this machine, held against one process."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from ...errors import InputError
from ...files import write_text
from ...runtime.training.configured import ConfiguredRun, run_configured
from ...simulator.training import TrainingPlan
from ...simulator.training.plan.words import seconds_text
from ..door import Answer, Asked
from .case import TrainingCase
from .options import RunOptions

__all__ = ["ran_configured"]

TOLERANCE = 1e-9
"""Largest relative difference in float64 from one process. Both add the same terms in another order."""

OTHERS = (
    "data", "weights", "save", "optimizer", "schedule", "groups", "checkpoint_every", "kills", "png", "precision",
)  # fmt: skip


def ran_configured(asked: Asked, plan: TrainingPlan) -> Answer:
    """Train, and say losses, seconds and the difference from one process.

    Raises
    ------
    InputError
        On options that such a run does not have, or a plan that the decoder cannot train by.
    RunError
        If a process fails.
    """
    options = cast(RunOptions, asked.options)
    wrong = next((name for name in OTHERS if getattr(options, name)), None)
    if wrong is not None:
        raise InputError(f"{wrong}: a plan of planner search runs here on drawn tokens; export it --to torch, "
                         "whose program takes data and weights")  # fmt: skip
    asked.progress(f"{sum(m.hosts * m.devices for m in plan.meshes)} processes")
    run = run_configured(
        plan, steps=options.iterations, seed=cast(TrainingCase, asked.case).seed, dtype=options.dtype,
        compare=options.compare, timeout_s=options.startup_timeout, clip=options.clip_norm or 0.0,
    )  # fmt: skip
    if asked.out is not None:
        write_text(asked.out, _rows(run))
    failed = ""
    if run.apart is not None and not run.apart <= TOLERANCE:
        failed = (
            f"run: the first iteration is not that of one process: {run.worst} {run.apart:.1e} apart; expected at most "
            f"{TOLERANCE:g}"
        )
    document = {
        "plan": next(iter(asked.plans)), "processes": run.config.way.processes, "losses": list(run.losses),
        "norms": list(run.norms), "seconds": list(run.seconds), "apart": run.apart, "worst": run.worst,
    }  # fmt: skip
    written: tuple[Path, ...] = () if asked.out is None else (asked.out,)
    return Answer("\n".join(_words(plan, run)), document, run, written=written, failed=failed)


def _words(plan: TrainingPlan, run: ConfiguredRun) -> list[str]:
    way = run.config.way
    degrees = ", ".join(f"{name} {n}" for name in ("tp", "pp", "dp", "cp", "ep") if (n := getattr(way, name)) > 1)
    shared = "" if way.shard == 1 else f", parameters {'and gathers ' if way.reshard else ''}shared by {way.shard}"
    losses = ", ".join(f"{x:.6g}" for x in run.losses[:5]) + (", …" if len(run.losses) > 5 else "")
    said = [
        f"{plan.model.name}: {way.processes} processes ({degrees or 'one device'}{shared}), {way.microbatches} "
        f"microbatches, {way.schedule}, by torch's DTensor, fully_shard and pipelining",
        f"losses: {losses}",
    ]
    if run.apart is not None:
        verdict = "equal" if run.apart <= TOLERANCE else "NOT equal"
        said.append(
            f"against one process: {verdict}; first iteration in float64: {run.apart:.1e} ({run.worst}), relative"
        )
    device = plan.cluster_spec
    said.append(f"an iteration took {seconds_text(run.median_s)} here (median of {len(run.seconds)}); the plan's "
                f"{seconds_text(plan.predicted['seconds'])} are of {device}")  # fmt: skip
    return said


def _rows(run: ConfiguredRun) -> str:
    rows = zip(run.losses, run.norms, run.seconds, strict=True)
    return (
        "\n".join(["iteration,loss,norm,seconds", *(f"{k},{x!r},{n!r},{s!r}" for k, (x, n, s) in enumerate(rows))])
        + "\n"
    )
