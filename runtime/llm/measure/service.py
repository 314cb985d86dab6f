"""`in_service`: how an engine's steps vary while it serves, for the folder that a measurement is kept in."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....profiles.llm.cost.in_service import InService
from ....profiles.llm.measured import LayerMeasurement, measured_cost, write_measurement
from ....profiles.llm.times import StepTimes
from ....profiles.measure.pool import WorkerPool
from ..compare.job import Served, serve_job
from ..compare.settings import LENGTHS, Setting, Traffic, scheduler_options
from ..steps import level_sd, times_of_steps, undisturbed
from .tables import Plan

__all__ = ["in_service"]

POLICY = "vllm-v1"
LOAD = 0.6
"""Share of what can be sustained at which requests come: batches of all sizes, and now and then a pause. A guess."""
SECONDS, FAST_SECONDS = 12.0, 3.0
"""How long they come: some hundred windows. Guesses."""
ROUNDS = 2
"""Stretches of that, with the whole of the last one between them: levels of one stretch are too alike."""


def in_service(
    pool: WorkerPool, plan: Plan, found: LayerMeasurement, *, fast: bool = False, tell: Callable[[str], None]
) -> StepTimes:  # fmt: skip
    """Serve drawn requests and record how single steps vary around what such steps take.

    Kinds and batches have costs of their own (`InService`), so that what a table is off by is no variation; what is
    left is scaled to a mean of 1.
    """
    with tempfile.TemporaryDirectory(prefix="meshwright-measure-") as folder:
        write_measurement(found, folder)
        cost = measured_cost(Path(folder), POLICY, max_tokens=4 * plan.sizes.tokens[-1], max_outputs=256)
    lengths = LENGTHS.get(plan.device, LENGTHS["cpu"])
    room = plan.spec.max_positions
    if lengths.longest_prompt + lengths.longest_output > room:
        lengths = replace(
            lengths, prompt=max(1, room // 8), output=max(2, room // 16), longest_prompt=max(1, room // 2),
            longest_output=max(2, room // 4),
        )  # fmt: skip
    longest = lengths.longest_prompt + lengths.longest_output
    seqs = plan.sizes.sequences[-1]
    setting = Setting(POLICY, budget=plan.sizes.tokens[-1], seqs=seqs)
    options: dict[str, Any] = scheduler_options(setting, longest, 64.0 * longest * seqs)
    traffic = Traffic((LOAD,), lengths=lengths, duration_s=FAST_SECONDS if fast else SECONDS)
    phases: list[Any] = []
    for number in range(ROUNDS):
        tell(f"steps in service, {number + 1} of {ROUNDS}")
        seeded = replace(plan, seed=plan.seed + number)
        requests = traffic.requests(LOAD, seeded, traffic.most(seeded, POLICY, options, cost))[2]
        served: Served = pool.call(
            serve_job, timeout_s=3600.0, spec=plan.spec, policy=POLICY, config=options,
            options={"device": plan.device, "dtype": plan.dtype, "seed": plan.seed}, trace=requests,
            clock=plan.clock,
        )[0]  # fmt: skip
        phases.append(served.steps)
    steps = [step for phase in phases for step in phase]
    known = undisturbed(steps) or [(step.iteration, step.seconds) for step in steps]
    learnt = InService.of(cost, known)
    shift = level_sd(phases, [learnt] * len(phases))
    # One recording after the other: the time between them is cut out.
    gap = max(0.0, phases[1][0].start - phases[0][-1].start - phases[0][-1].seconds)
    joined = [*phases[0], *(step._replace(start=step.start - gap) for step in phases[1])]
    return times_of_steps(joined, learnt, shift).normalised()
