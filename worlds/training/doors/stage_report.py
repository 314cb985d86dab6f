"""What was measured of a plan's stages, in words and as a document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ....profiles.measure.device import DeviceFacts
    from ....simulator.training.plan.file import StageEntry, TrainingPlan

__all__ = ["Measured", "document", "report"]

UNDISTURBED = 0.98
"""Share of the measuring time in which processes must have had their cores; below it figures are doubtful."""

DRIFT = 0.03
"""Change between the halves of a measurement that is worth a word. Windows of 8 s differ by 2.3 % (standard deviation)
on the two cores that the project was measured on."""

FASTEST = 1e12
"""Bytes per second between processes that no machine's memory has: others held up the small messages."""


@dataclass(frozen=True)
class Measured:
    """What all rounds together say."""

    plan: TrainingPlan
    alone: TrainingPlan
    """With stages, collectives and messages measured by themselves."""
    compute_s: tuple[float, ...]
    collective_s: tuple[float, ...]
    own: float
    drift: float


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


def report(plan: TrainingPlan, measured: Measured) -> Iterable[str]:
    """What was measured beside what was planned, line by line."""
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
    yield _expectation(here)
    yield from _doubts(plan, measured)


def _expectation(plan: TrainingPlan) -> str:
    """How a measured plan's times vary, in a line."""
    from ....simulator.training.plan.words import seconds_text
    from ....simulator.training.varying.iterations import plan_times, simulate_iterations

    runs = simulate_iterations(plan)
    low, high = (seconds_text(s) for s in runs.interval_s())
    return (
        f"times vary: {plan_times(plan).passes.explain()}; an iteration takes {seconds_text(runs.expected_s())} in the "
        f"mean, 95 % of runs of {runs.seconds.shape[1]} iterations between {low} and {high}"
    )


def _doubts(plan: TrainingPlan, measured: Measured) -> Iterable[str]:
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


def document(
    path: Path, plan: TrainingPlan, measured: Measured, facts: DeviceFacts, rounds: int, out: Path | None
) -> dict[str, Any]:
    """The same for machines."""
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
