"""`measured_in_place`: what a profile's operators take in stages at work, over what they took by themselves.

A stage takes more than the sum of its operators: gradients of values that are read twice are added, messages move on
the same cores, memory is colder, and the runtime itself works between them. The profile keeps the ratio of each pass,
taken while a pipeline of the whole graph ran on all devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ....profiles.graph import Graph, OperatorTimes, parameter_bytes
from ....profiles.graph.costs.measured.model import MeasuredCosts
from ....profiles.graph.costs.measured.profile import TrainingProfile
from ....profiles.graph.operator import DTYPE_BYTES
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.plan.graph import in_plan_order
from ..hand_plan import hand_plan
from ..run import program_of, run_training
from ..session import TrainingSession
from .service import with_service

__all__ = ["fits", "measured_in_place"]

STATE = 16
"""Bytes of an element's weight, gradient and two states of Adam in single precision."""


def fits(profile: TrainingProfile, graph: Graph, batch: int) -> bool:
    """Whether the devices together hold a pipeline of the graph: parameters with states, and results of as many
    microbatches as there are stages.

    Parameters
    ----------
    profile : TrainingProfile
        Of the devices.
    graph : Graph
        What will be planned.
    batch : int
        Samples of a microbatch.
    """
    one = graph.with_batch(batch)
    state = STATE * sum(p.elements for p in one.parameters)
    kept = sum(math.prod(op.shape) * DTYPE_BYTES[op.dtype] for op in one.operators)
    return state + kept * profile.devices <= profile.device.usable_memory_bytes * profile.devices


def measured_in_place(
    profile: TrainingProfile, graph: Graph, batch: int, session: TrainingSession, *, rounds: int = 3,
    iterations: int = 5, seed: int = 0,
) -> TrainingProfile:  # fmt: skip
    """The profile with its ratio of stages to operators, forward and backward, and the rate of optimizer steps.

    Parameters
    ----------
    profile : TrainingProfile
        With the graph's operators, whole.
    graph : Graph
        What runs, in as many stages as the profile has devices.
    batch : int
        Samples of a microbatch.
    session : TrainingSession
        Processes, one for each device of the profile.
    rounds, iterations : int
        Runs, and iterations of each, of which the first only warms up.
    seed : int
        Of weights and data.

    Raises
    ------
    InputError
        If the graph has fewer operators than there are devices.
    RunError
        If a rank fails.
    """
    alone = replace(profile, in_place=(1.0, 1.0))
    costs = MeasuredCosts(alone)
    one = graph.with_batch(batch)
    times = [costs.times(op, {}) for op in one.operators]
    count = 2 * profile.devices
    plan = hand_plan(
        graph, meshes=[(1, 1)] * profile.devices, microbatches=count, global_batch=count * batch,
        cuts=_cuts(times, profile.devices),
    )  # fmt: skip
    runs = [
        run_training(plan, graph, seed=seed + turn, iterations=iterations, session=session) for turn in range(rounds)
    ]
    ran = with_service(plan, program_of(plan, in_plan_order(plan, one)), runs)
    weight, gradient, state = parameter_bytes("float32", "adam")  # what runs here
    moved = (gradient + 2 * weight + 2 * state) * sum(p.elements for p in one.parameters if p.trainable)
    updates = sum(stage.update_s for stage in ran.stages)
    return replace(
        profile, in_place=_ratios(ran, times), update_bytes_per_s=moved / updates if moved and updates else None
    )


def _cuts(times: Sequence[OperatorTimes], stages: int) -> list[int]:
    """Bounds of stages that take about equally long, an operator each at least."""
    total, done, bounds = sum(map(_seconds, times)), 0.0, [0]
    for i, one in enumerate(times):
        left = stages - len(bounds)
        due = done >= total * len(bounds) / stages and i > bounds[-1]
        if left and (due or len(times) - i <= left):
            bounds.append(i)
        done += _seconds(one)
    return [*bounds, len(times)]


def _seconds(one: OperatorTimes) -> float:
    return one.forward_s + one.backward_input_s + one.backward_weight_s


def _ratios(ran: TrainingPlan, times: Sequence[OperatorTimes]) -> tuple[float, float]:
    forward = sum(stage.forward_s for stage in ran.stages)
    back = sum(stage.backward_input_s + stage.backward_weight_s for stage in ran.stages)
    planned = sum(one.backward_input_s + one.backward_weight_s for one in times)
    return forward / sum(one.forward_s for one in times), back / planned
