"""Running: a training plan trains on this machine, held against one device and against the simulation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ....errors import InputError
from ....files import write_text
from ....runtime.training import RunOptions as RuntimeOptions
from ....runtime.training import TrainingRun, run_training
from ....runtime.training.configured import is_configured
from ....simulator.training import TrainingPlan, TrainingResult, simulate_training
from ....simulator.training.plan.graph import planned_graph
from ....simulator.training.plan.words import seconds_text, table
from ...before import one_plan
from ...door import Answer, Asked
from ..case import TrainingCase
from ..options import RunOptions
from .own import module_of_plan, own_of, saved

if TYPE_CHECKING:
    from ....profiles.graph import Graph
    from ....runtime.training.compare import Compared

__all__ = ["check_here", "ran", "with_measured"]

TOLERANCE = 1e-7
"""Largest relative difference of the first iteration, in float64, from the module's.

Both sides add the same terms in another order. float64 rounds each to 1.1e-16 of its size: a billion roundings are left
to sums, and to norms and softmaxes that make differences larger. What is wrong (an axis, a rank, an eps) is larger.
"""


def ran(asked: Asked) -> Answer:
    """Run and compare.

    Raises
    ------
    InputError
        On what is wrong with the options or the plan.
    RunError
        If a process fails.
    """
    options, plan = cast(RunOptions, asked.options), cast(TrainingPlan, one_plan(asked))
    name = next(iter(asked.plans))
    devices = sum(m.hosts * m.devices for m in plan.meshes)
    if is_configured(plan):
        from ..configured import ran_configured

        check_here(plan, devices)
        return ran_configured(asked, plan)
    graph = planned_graph(plan, Path(name))
    check_here(plan, devices)
    if options.checkpoint_every is not None:
        for one in ("data", "weights", "save", "optimizer", "precision"):
            if getattr(options, one):
                raise InputError(f"{one}: goes without checkpoint_every: such a run is of seeded data")
        from .recovery import recovered

        return recovered(asked, plan, graph)
    for one in ("kills", "png"):
        if getattr(options, one):
            raise InputError(f"{one}: goes with checkpoint_every alone, which says how often a checkpoint is written")
    wanted = options.compare or plan.model.module
    module, against = module_of_plan(plan, Path(name)) if wanted else (None, "")
    own = own_of(options, module)
    asked.progress(f"{devices} processes")
    run = run_training(
        plan, graph, seed=cast(TrainingCase, asked.case).seed, iterations=options.iterations,
        dtype=options.dtype, compare=options.compare, own=own,
        options=RuntimeOptions(
            against=against, timeout_s=options.startup_timeout, keep=options.save is not None,
            precision=options.precision or "full",
        ),
    )  # fmt: skip
    simulated = simulate_training(plan)
    again = simulate_training(with_measured(plan, run))
    if asked.out is not None:
        write_text(asked.out, _rows(run))
    text = _words(plan, run, simulated, again)
    if options.save is not None:
        text.append(saved(run, options.save))
    held = _held(plan, graph, run) if plan.service is not None else None
    if held is not None:
        text.append(held.line())
    if options.compare and module is None:
        text.append(f"held against the graph, not a module: {against}")
    apart = run.difference
    failed = ""
    if apart is not None and not apart.largest <= TOLERANCE:
        failed = (
            f"run: the first iteration is not that of {apart.against}: loss {apart.loss:.1e}, gradient of "
            f"{apart.worst!r} {apart.gradient:.1e}, weights {apart.weight:.1e} apart; expected at most {TOLERANCE:g}"
        )
    document = {"plan": name, **_document(plan, run, simulated, again)}
    if held is not None:
        document |= {"expected_s": held.simulated_s, "interval_s": list(held.interval_s), "inside": held.inside,
                     "level": held.level, "rest": held.rest}  # fmt: skip
    written = tuple(path for path in (asked.out, options.save) if path is not None)
    return Answer("\n".join(text), document, run, written=written, failed=failed)


def _held(plan: TrainingPlan, graph: Graph, run: TrainingRun) -> Compared:
    """The run against what was expected of a plan that was measured."""
    from ....runtime.training.compare.plans import held_against

    return held_against("this run", plan, graph, [run])


def check_here(plan: TrainingPlan, devices: int) -> None:
    """Refuse a plan for a cluster that this machine cannot stand in for.

    Raises
    ------
    InputError
        If there would be many more processes than cores, or more bytes than memory.
    """
    cores = os.cpu_count() or 1
    most = max(8, 4 * cores)
    if devices > most:
        where = " + ".join(map(str, plan.clusters))
        raise InputError(
            f"run: the plan is for {where} and would take {devices} processes on {cores} cores here (at "
            f"most {most}); plan for this machine, such as --devices {cores} --device cpu-core, or export it --to torch"
        )
    needed = sum(s.state_bytes * plan.mesh(i).n_devices for i, s in enumerate(plan.stages))
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else float("inf")
    if needed > have:
        raise InputError(
            f"run: weights and optimiser states of {plan.model.name} take {needed / 2**30:.0f} GiB, this machine has "
            f"{have / 2**30:.0f} GiB; run a smaller model, or export the plan --to torch"
        )


def _times(run: TrainingRun, stage: int, op: str) -> list[float]:
    """Seconds of an action of a stage on its ranks, the first iteration left out where there are others."""
    return [
        span.end - span.start
        for iteration in (run.spans[1:] or run.spans)
        for rank in iteration
        for span in rank
        if span.stage == stage and span.op == op
    ]


def _measured(plan: TrainingPlan, run: TrainingRun, s: int) -> dict[str, float]:
    """Median seconds of what a stage does; of a sliced microbatch, the sum of its slices'."""
    import numpy as np

    found = {
        op: float(np.median(t)) if (t := _times(run, s, op)) else 0.0 for op in ("F", "B", "W", "REDUCE", "UPDATE")
    }
    if plan.slices:
        stage = with_measured(plan, run).stages[s]
        found |= {"F": stage.forward_s, "B": stage.backward_input_s}
    return found


def with_measured(plan: TrainingPlan, run: TrainingRun) -> TrainingPlan:
    """The plan with every stage's times as they were measured: what is left to the simulation is who waits for whom."""
    import numpy as np

    from ....runtime.training.measure.calibrate_slices import slice_seconds, with_slice_times

    stages: list[Any] = []
    for s, stage in enumerate(plan.stages):
        names = {"forward_s": "F", "backward_input_s": "B", "backward_weight_s": "W", "reduce_s": "REDUCE",
                 "update_s": "UPDATE"}  # fmt: skip
        if plan.slices:
            stage = with_slice_times(plan, s, slice_seconds(plan, run, s, "F"), slice_seconds(plan, run, s, "B"))
            names = {"reduce_s": "REDUCE", "update_s": "UPDATE"}
        times = {name: float(np.median(t)) if (t := _times(run, s, op)) else 0.0 for name, op in names.items()}
        stages.append(stage.model_copy(update=times))
    return plan.model_copy(update={"stages": tuple(stages), "predicted": {}})


def _document(plan: TrainingPlan, run: TrainingRun, simulated: TrainingResult, again: TrainingResult) -> dict[str, Any]:
    apart = run.difference
    return {
        "processes": len(run.mesh_of_rank),
        "losses": list(run.losses),
        "seconds": list(run.seconds),
        "median_s": run.median_s,
        "simulated_s": simulated.seconds,
        "simulatedwith_measured_stages_s": again.seconds,
        "difference": None
        if apart is None
        else {"loss": apart.loss, "gradient": apart.gradient, "worst": apart.worst, "weight": apart.weight,
              "against": apart.against},
        "stages": [
            {"stage": s, "planned_s": _planned(plan, s), "measured_s": _measured(plan, run, s),
             "planned_collectives": dict(stage.collectives), "collectives": run.collectives_of(s)}
            for s, stage in enumerate(plan.stages)
        ],
    }  # fmt: skip


def _planned(plan: TrainingPlan, s: int) -> dict[str, float]:
    stage = plan.stages[s]
    return {"F": stage.forward_s, "B": stage.backward_input_s + stage.backward_weight_s, "W": 0.0,
            "REDUCE": stage.reduce_s, "UPDATE": stage.update_s}  # fmt: skip


def _words(plan: TrainingPlan, run: TrainingRun, simulated: TrainingResult, again: TrainingResult) -> list[str]:
    said: list[str] = []
    cut = f" in {sum(len(x.tokens) * x.count for x in plan.slices)} token slices" if plan.slices else ""
    counts = sorted(set(plan.microbatches_of))
    many = " to ".join(map(str, (counts[0], counts[-1])[: len(counts)]))
    said.append(f"{plan.model.name}: {len(run.mesh_of_rank)} processes, {many} microbatches{cut}, {plan.schedule}")
    losses = [f"{x:.6g}" for x in run.losses]
    said.append(f"losses: {', '.join(losses if len(losses) <= 8 else [*losses[:4], '…', *losses[-3:]])}")
    apart = run.difference
    if apart is not None:
        verdict = "equal" if apart.largest <= TOLERANCE else "NOT equal"
        said.append(
            f"against {apart.against}: {verdict}; first iteration in float64: loss {apart.loss:.1e}, gradients "
            f"{apart.gradient:.1e} ({apart.worst}), weights {apart.weight:.1e} apart, relative"
        )
    rows: list[dict[str, str]] = []
    for s in range(len(plan.stages)):
        t, p = _measured(plan, run, s), _planned(plan, s)
        row = {"stage": str(s)}
        for name, op in (("forward", "F"), ("backward", "B"), ("reduce", "REDUCE"), ("update", "UPDATE")):
            value = t[op] + (t["W"] if op == "B" else 0.0)
            row[name] = f"{seconds_text(value)} (planned {seconds_text(p[op])})"
        rows.append(row)
    said.append("")
    for line in table(rows):
        said.append(line)
    said.append("")
    said.append(f"an iteration took          {seconds_text(run.median_s):>10}  (median of {len(run.seconds)})")
    for what, result in (("simulated, as planned", simulated), ("simulated, stages measured", again)):
        said.append(f"{what:<26} {seconds_text(result.seconds):>10}  ({result.seconds / run.median_s - 1:+.1%})")
    return said


def _rows(run: TrainingRun) -> str:
    """Every action as CSV."""
    lines = ["iteration,rank,op,stage,microbatch,slice,start,end,cpu,collective"]
    for i, ranks in enumerate(run.spans):
        for rank, spans in enumerate(ranks):
            lines += [
                f"{i},{rank},{x.op},{x.stage},{x.microbatch},{x.slice},{x.start!r},{x.end!r},{x.cpu!r},{x.collective!r}"
                for x in spans
            ]
    return "\n".join(lines) + "\n"
