"""Measuring: the stages of a training plan timed on this machine's cores, into a plan."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

from ....errors import InputError, install_hint
from ...before import one_plan
from ...door import Answer, Asked
from ..case import TrainingCase
from ..options import MeasureOptions
from .run import check_here
from .stage_report import Measured, document, report

if TYPE_CHECKING:
    from ....profiles.measure.device import DeviceFacts
    from ....runtime.training.measure.calibrate import Calibration
    from ....runtime.training.result import TrainingRun
    from ....simulator.training.plan.file import TrainingPlan
    from ....simulator.training.program.actions import Program

__all__ = ["measured_stages"]

ROUNDS = 3
"""Medians of three leave one disturbed round out."""
SERVICE_S = 2.0
"""Seconds that the plan is run for in each round, about, from which times in service are read. A guess: some dozen slow
moments, which last 0.1 s and more on the two cores that the project was measured on."""
LEAST, MOST = 4, 50
"""Iterations of such a run; the first only warms up."""
SLICES = ("slice_forward_s", "slice_backward_s")
TIMES = ("forward_s", "backward_input_s", "backward_weight_s", "reduce_s", "update_s")


def measured_stages(asked: Asked) -> Answer:
    """Time the stages; the answer's plan has the measured times.

    Raises
    ------
    InputError
        On what is wrong with the options or the plan, before anything is measured.
    RunError
        If a process fails.
    """
    from ....profiles.measure.device import device_facts
    from ....profiles.measure.pool import Worker
    from ....simulator.training.plan.file import TrainingPlan
    from ....simulator.training.plan.graph import in_plan_order, planned_graph
    from ....simulator.training.simulate import simulate_training

    options, plan = cast(MeasureOptions, asked.options), cast(TrainingPlan, one_plan(asked))
    path = Path(next(iter(asked.plans)))
    if options.fast and options.rounds is not None:
        raise InputError("fast: is one round; give it or rounds")
    for name in ("lengths", "contexts", "samples"):
        if name in options.model_fields_set:
            raise InputError(f"{name}: is for the slices of a model (measure training --model …), not for a plan")
    trained = cast(TrainingCase, asked.case).model
    if trained != plan.model.name:
        raise InputError(f"model: {path} says what is trained, {plan.model.name!r} (got {trained!r}); leave it out")
    turns = 1 if options.fast else options.rounds or ROUNDS
    graph = planned_graph(plan, path)
    needed = sum(m.hosts * m.devices for m in plan.meshes)
    _check_cores(plan, needed)
    if find_spec("torch") is None:
        raise InputError(f"measure: torch is not installed; measuring needs it: {install_hint('torch')}")
    from ....runtime.training.measure.calibrate import calibrate_training
    from ....runtime.training.measure.calibrate_slices import calibrate_slices
    from ....runtime.training.run import program_of, run_training
    from ....runtime.training.session import TrainingSession

    found: list[Calibration] = []
    runs: list[TrainingRun] = []
    with TrainingSession(needed) as session:
        for turn in range(turns):
            asked.progress(f"round {turn + 1} of {turns}")
            calibrate = calibrate_slices if plan.slices else calibrate_training
            found.append(calibrate(plan, graph, session, seed=asked.case.seed))
            iterations = round(SERVICE_S / max(simulate_training(found[-1].plan).seconds, SERVICE_S / MOST))
            many = max(LEAST, iterations)
            runs.append(run_training(plan, graph, seed=asked.case.seed, iterations=many, session=session))
    facts = device_facts(Worker(0, 1, "cpu"))
    program = program_of(plan, in_plan_order(plan, graph.with_batch(plan.microbatch)))
    source = _source(facts, needed, (turns, len(runs[0].seconds) - 1))
    measured = _together(plan, (found, runs, program), source, _graph_from(plan, path, asked.out))
    if asked.out is not None:
        measured.plan.save(asked.out)
    written = () if asked.out is None else (asked.out,)
    text = "\n".join(report(plan, measured))
    return Answer(text, document(path, plan, measured, facts, turns, asked.out), measured.plan, written=written)


def _check_cores(plan: TrainingPlan, needed: int) -> None:
    """Refuse what would time how processes share cores, and what `run` refuses."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if needed > cores:
        raise InputError(
            f"measure: the plan is for {plan.cluster_spec}, {needed} processes, and {cores} core(s) may be used here: "
            f"processes that share cores have no times of their own; plan for --devices {cores} --device cpu-core"
        )
    check_here(plan, needed)


def _source(facts: DeviceFacts, processes: int, rounds: tuple[int, int]) -> str:
    """Where and when, in words."""
    from .... import __version__

    versions = ", ".join(f"{name} {version}" for name, version in {"meshwright": __version__, **facts.versions}.items())
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return (
        f"measured on {facts.name}, {processes} core(s), float32, in service, {rounds[0]} round(s) of {rounds[1]} "
        f"iterations; {versions}; {when}"
    )


def _graph_from(plan: TrainingPlan, path: Path, out: Path | None) -> str:
    """The plan's graph file as the measured plan, which may lie in another folder, finds it beside itself."""
    name = plan.model.graph
    if not name or out is None or Path(name).is_absolute():
        return name
    beside = path.parent / name
    return Path(os.path.relpath(beside if beside.exists() else name, out.parent)).as_posix()


def _together(
    plan: TrainingPlan, rounds: tuple[list[Calibration], list[TrainingRun], Program], source: str, graph: str
) -> Measured:
    """All rounds: medians by themselves, and times in service. The plan keeps its promises of time no longer."""
    from ....runtime.training.measure.service import drift, with_service

    found, runs, program = rounds
    last = found[-1].plan
    stages: list[Any] = []
    for s, stage in enumerate(last.stages):
        times: dict[str, Any] = {name: median(getattr(one.plan.stages[s], name) for one in found) for name in TIMES}
        times |= {name: _slices([getattr(one.plan.stages[s], name) for one in found]) for name in SLICES}
        stages.append(stage.model_copy(update=times))
    update: dict[str, Any] = {"stages": tuple(stages), "cost_source": source, "predicted": {}}
    if last.cluster.device.name != plan.cluster.device.name:  # links were measured too: there are several processes
        links = [one.plan.cluster.device.intra_node for one in found]
        link = median(link[0] for link in links), median(link[1] for link in links)
        device = last.cluster.device.model_copy(update={"intra_node": link, "inter_node": link, "source": source})
        update["cluster"] = last.cluster.model_copy(update={"device": device})
    update["model"] = last.model.model_copy(update={"graph": graph})
    each = range(len(stages))
    alone = last.model_copy(update=update)
    return Measured(
        with_service(alone, program, runs),
        alone,
        tuple(median(one.compute_s[s] for one in found) for s in each),
        tuple(median(one.collective_s[s] for one in found) for s in each),
        median(one.own for one in found),
        drift(runs),
    )


def _slices(rounds: Sequence[tuple[tuple[float, ...], ...]]) -> tuple[tuple[float, ...], ...]:
    """Medians slice by slice; nothing where a plan has none."""
    return tuple(tuple(median(times) for times in zip(*entry, strict=True)) for entry in zip(*rounds, strict=True))
