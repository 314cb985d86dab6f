"""Runs of a pipeline of two stages whose times are known by hand, as `runtime.serving.measure` reads them."""

from types import SimpleNamespace

import numpy as np
from meshwright.profiles import ModelProfile, ParallelConfig, ProfileSet, Provenance
from meshwright.runtime.serving.result import RunResult
from meshwright.simulator import Group, Placement, simulate
from meshwright.simulator.serving.replay import stage_spans
from meshwright.traces import gamma

PIPELINE = ParallelConfig(1, 2)
MODELS = ("a-0", "a-1", "b-0")
PLACEMENT = Placement([Group(PIPELINE, MODELS)])
TURNAROUND, HOP, ANSWER = 0.0005, 0.0003, 0.0007
SECONDS = {"a-0": (0.010, 0.012), "a-1": (0.010, 0.012), "b-0": (0.020, 0.016)}


def known(factor=1.0):
    models = {
        name: ModelProfile.from_stages(name, {PIPELINE: {1: [factor * s for s in row]}}, hop_s=0.001)
        for name, row in SECONDS.items()
    }
    return ProfileSet("hand", "cpu-core", models, Provenance("by hand"), overhead_s=0.002)


def served(factors=(1.0, 1.0), seed=0):
    """A run in which stage k takes `factors[k]` times SECONDS, and everything between takes what stands above."""
    really = {
        name: ModelProfile.from_stages(
            name, {PIPELINE: {1: [f * s + TURNAROUND for f, s in zip(factors, row, strict=True)]}}, hop_s=HOP
        )
        for name, row in SECONDS.items()
    }
    trace = gamma(30.0, 3.0, 20.0, list(MODELS), slo=0.2, seed=seed)
    simulated = simulate(PLACEMENT, trace, really, overhead=ANSWER)
    spans = stage_spans(simulated.segments[0], simulated)
    begun, took = (np.full((len(trace), 2), np.nan) for _ in range(2))
    begun[spans.request, spans.stage] = spans.start
    took[spans.request, spans.stage] = spans.end - spans.start - TURNAROUND
    return RunResult(
        trace, simulated.finish, simulated.group, simulated.segments, simulated.overhead,
        start_column=simulated.start, batch=np.where(simulated.rejected, 0, 1), engine="real",
        dispatch=simulated.dispatch, stage_start=begun, stage_s=took, cpu_s=took,
    )  # fmt: skip


def session():
    """What `in_service` asks a session for."""
    specs = {name: {"name": name, "layers": 2 if name[0] == "a" else 3} for name in MODELS}
    tasks = [
        SimpleNamespace(
            group=0, stage=k, share=0, op=1, pp=2,
            models=[SimpleNamespace(model=m, spec=specs[n], first=k, last=k + 1) for m, n in enumerate(MODELS)],
        )
        for k in range(2)
    ]  # fmt: skip
    return SimpleNamespace(tasks=tasks, models=MODELS, placement=PLACEMENT, batches=(1,))
