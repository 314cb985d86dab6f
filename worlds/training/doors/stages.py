"""Measuring: the stages of a training plan timed on this machine's cores, into a plan."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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

if TYPE_CHECKING:
    from ....profiles.measure.device import DeviceFacts
    from ....runtime.training.measure.calibrate import Calibration
    from ....runtime.training.run import TrainingRun
    from ....simulator.training.plan.file import StageEntry, TrainingPlan
    from ....simulator.training.program.actions import Program

__all__ = ["measured_stages"]

ROUNDS = 3
"""Medians of three leave one disturbed round out."""
UNDISTURBED = 0.98
"""Share of the measuring time in which processes must have had their cores; below it figures are doubtful."""

SERVICE_S = 2.0
"""Seconds that the plan is run for in each round, about, from which times in service are read. A guess: some dozen slow
moments, which last 0.1 s and more on the two cores that the project was measured on."""
LEAST, MOST = 4, 50
"""Iterations of such a run; the first only warms up."""
DRIFT = 0.03
"""Change between the halves of a measurement that is worth a word. Windows of 8 s differ by 2.3 % (standard deviation)
on the two cores that the project was measured on."""

FASTEST = 1e12
"""Bytes per second between processes that no machine's memory has: others held up the small messages."""

SLICES = ("slice_forward_s", "slice_backward_s")
TIMES = ("forward_s", "backward_input_s", "backward_weight_s", "reduce_s", "update_s")


@dataclass(frozen=True)
class _Measured:
    """What all rounds together say."""

    plan: TrainingPlan
    alone: TrainingPlan
    """With stages, collectives and messages measured by themselves."""
    compute_s: tuple[float, ...]
    collective_s: tuple[float, ...]
    own: float
    drift: float


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
    text = "\n".join(_report(plan, measured))
    return Answer(text, _document(path, plan, measured, facts, turns, asked.out), measured.plan, written=written)


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
) -> _Measured:
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
    return _Measured(
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


def _passes(planned: StageEntry, measured: StageEntry, split: bool) -> Iterable[tuple[str, float, float]]:
    """Name, planned and measured seconds of what a stage does."""
    yield "forward", planned.forward_s, measured.forward_s
    if split:
        yield "backward to inputs", planned.backward_input_s, measured.backward_input_s
        yield "backward to weights", planned.backward_weight_s, measured.backward_weight_s
    else:  # the schedule runs both halves in one, and so they are timed
        both = [stage.backward_input_s + stage.backward_weight_s for stage in (planned, measured)]
        yield "backward", both[0], both[1]
    yield "reduce", planned.reduce_s, measured.reduce_s
    yield "update", planned.update_s, measured.update_s


def _rows(plan: TrainingPlan, measured: TrainingPlan) -> list[tuple[int, str, float, float]]:
    split = any(stage.backward_weight_s > 0 for stage in measured.stages)
    return [
        (s, *row)
        for s, (before, after) in enumerate(zip(plan.stages, measured.stages, strict=True))
        for row in _passes(before, after, split)
    ]


def _report(plan: TrainingPlan, measured: _Measured) -> Iterable[str]:
    from ....simulator.training.plan.words import seconds_text, table
    from ....simulator.training.simulate import simulate_training

    here = measured.plan
    yield f"{plan.model.name}: {here.cost_source}"
    yield f"planned: {plan.cost_source or 'no source named'}"
    yield ""
    yield from table(
        [
            {
                "stage": str(s),
                "pass": name,
                "planned": seconds_text(planned),
                "measured": seconds_text(took),
                "measured / planned": f"{took / planned:.3g}" if planned > 0 else "-",
            }
            for s, name, planned, took in _rows(plan, here)
        ]
    )
    yield ""
    for s, (compute, collective) in enumerate(zip(measured.compute_s, measured.collective_s, strict=True)):
        yield (
            f"stage {s}, a microbatch: computing {seconds_text(compute)}, collectives and waiting for others "
            f"{seconds_text(collective)}"
        )
    if here.cluster.device.name != plan.cluster.device.name:
        (before, slow), (after, fixed) = plan.cluster.device.intra_node, here.cluster.device.intra_node
        yield (
            f"messages: {seconds_text(fixed)} and {after / 1e9:.3g} GB/s (planned {seconds_text(slow)} and "
            f"{before / 1e9:.3g} GB/s)"
        )
    before, alone, after = (simulate_training(one).seconds for one in (plan, measured.alone, here))
    yield (
        f"an iteration, simulated: {seconds_text(after)} with these times, {seconds_text(alone)} with stages and "
        f"messages measured by themselves, {seconds_text(before)} as planned"
    )
    yield expectation(here)
    yield from _doubts(plan, measured)


def expectation(plan: TrainingPlan) -> str:
    """How a measured plan's times vary, in a line."""
    from ....simulator.training.plan.words import seconds_text
    from ....simulator.training.varying.iterations import plan_times, simulate_iterations

    runs = simulate_iterations(plan)
    low, high = (seconds_text(s) for s in runs.interval_s())
    return (
        f"times vary: {plan_times(plan).passes.explain()}; an iteration takes {seconds_text(runs.expected_s())} in the "
        f"mean, 95 % of runs of {runs.seconds.shape[1]} iterations between {low} and {high}"
    )


def _doubts(plan: TrainingPlan, measured: _Measured) -> Iterable[str]:
    if plan.model.dtype != "float32":
        yield (
            f"doubtful: the plan is for {plan.model.dtype}, cores compute in float32; memory and the bytes of messages "
            "are still the plan's"
        )
    here = measured.plan.cluster.device
    if here.name != plan.cluster.device.name and here.intra_node[0] > FASTEST:
        yield "doubtful: large messages took no longer than small ones; measure again with more --rounds"
    if measured.own < UNDISTURBED:
        yield (
            f"doubtful: processes had their cores in {measured.own:.1%} of the time only; measure again on a quiet "
            "machine"
        )
    if abs(measured.drift) > DRIFT:
        yield (
            f"drift: iterations took {measured.drift:+.1%} in the second half of the rounds; the interval knows it, "
            "and more --rounds make it narrower"
        )


def _document(
    path: Path, plan: TrainingPlan, measured: _Measured, facts: DeviceFacts, rounds: int, out: Path | None
) -> dict[str, Any]:
    from ....simulator.training.simulate import simulate_training
    from ....simulator.training.varying.iterations import simulate_iterations

    runs = simulate_iterations(measured.plan)
    link = measured.plan.cluster.device
    return {
        "plan": str(path),
        "written": None if out is None else str(out),
        "source": measured.plan.cost_source,
        "planned_source": plan.cost_source,
        "device": facts.name,
        "versions": facts.versions,
        "rounds": rounds,
        "cores_ours": measured.own,
        "passes": [
            {"stage": s, "pass": name, "planned_s": planned, "measured_s": took}
            for s, name, planned, took in _rows(plan, measured.plan)
        ],
        "stages": [
            {"compute_s": compute, "collective_s": collective}
            for compute, collective in zip(measured.compute_s, measured.collective_s, strict=True)
        ],
        "messages": None
        if link.name == plan.cluster.device.name
        else {"bandwidth_bytes_per_s": link.intra_node[0], "latency_s": link.intra_node[1]},
        "simulated_s": simulate_training(measured.plan).seconds,
        "expected_s": runs.expected_s(),
        "interval_s": list(runs.interval_s()),
        "simulated_alone_s": simulate_training(measured.alone).seconds,
        "simulated_as_planned_s": simulate_training(plan).seconds,
        "doubts": list(_doubts(plan, measured)),
    }
