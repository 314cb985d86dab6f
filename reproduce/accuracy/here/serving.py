"""Serving: two placements of a small model, at two SLO scales, expected and really run."""

from __future__ import annotations

import numpy as np

from .... import traces
from ....profiles import ParallelConfig
from ....profiles.measure.models import take_measurement
from ....runtime import CompareOptions, compare
from ....simulator import Group, Placement
from ..line import Errors, Line
from ..machine import Machine
from . import Tell

__all__ = ["lines"]

ARCHITECTURE, COPIES = "cpu-bert-s", 4
"""Four fine-tuned copies of the smallest model that the runtime brings."""
LOAD, CV, SECONDS, SCALES = 0.5, 4.0, 10.0, (2.0, 5.0)
"""Bursty traffic as in the demo, at half of what two devices could do; short, so that the page takes minutes."""


def lines(machine: Machine, seed: int, tell: Tell) -> tuple[Line, ...]:
    """Measure, expect, run; SLO attainment of each cell, in points."""
    tell(f"serving: timing {ARCHITECTURE}")
    found = take_measurement([ARCHITECTURE], "cpu", (1,), (1,), (1, 2), seconds=2.0, fast=True, seed=seed)
    profiles = found.profiles.instances({ARCHITECTURE: COPIES})
    names = list(profiles)
    one, cut = ParallelConfig(1, 1), ParallelConfig(1, 2)
    placements = {
        "replicas": Placement([Group(config=one, models=names), Group(config=one, models=names)]),
        "pipeline": Placement([Group(config=cut, models=names)]),
    }
    rate = LOAD * 2 / profiles[names[0]].single_device_latency()
    trace = traces.gamma(rate=rate, cv=CV, duration=SECONDS, models=names, slo=1.0, seed=seed)
    result = compare(
        placements, trace, profiles, SCALES, device="cpu", options=CompareOptions(seed=seed),
        progress=lambda line: tell(f"serving: {line}"),
    )  # fmt: skip
    off = [100 * (cell.expected.mean - cell.attribution.real) for cell in result.cells]
    inside = [cell.inside for cell in result.cells]
    taken = float(np.mean([np.nan_to_num(c.result.cores.others) + np.nan_to_num(c.result.cores.stolen)
                           for c in result.cells]))  # fmt: skip
    return (
        Line(
            "here", "serving",
            f"SLO attainment of {len(placements)} placements (replicas, a pipeline) of {COPIES} {ARCHITECTURE} at SLO "
            f"scales {' and '.join(f'{scale:g}' for scale in SCALES)}, {len(trace)} requests in {SECONDS:g} s each, "
            "of which every other half second counts",
            "the serving world with times in service, drawn; 95 % intervals", "this machine", machine.name,
            machine.date, "out",
            "times are learnt from other requests, served in turns with those that count; others took "
            f"{taken:.1%} of the cores while the cells ran",
            "made now; `meshwright compare` prints every cell, and why it is off", Errors.of(off, "points", inside),
        ),
    )  # fmt: skip
