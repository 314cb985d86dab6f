"""Sharing: what Themis' paper measured on 64 GPUs: unfairness and GPU time of other policies over its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...themis.experiments.points import POLICIES, Point, frame_of, over_themis, seeds_of
from ..line import Errors, Line
from . import Tell

__all__ = ["lines"]

SEEDS = 2
"""Draws of each workload: those of the fast version of themis/fig09 to fig12."""
RHO = (2.2, 3.25)
"""Max ρ of the best and of the worst other policy over Themis' (§6.2), for both workloads."""
GPU_TIME = {"gandiva": 1.048, "slaq": 2.5}
"""GPU time over Themis', Workload 2 (§6.2, Fig. 12)."""


def lines(seed: int, tell: Tell) -> tuple[Line, ...]:
    """Medians over draws of the ratios that the paper prints."""
    rho: list[tuple[float, float]] = []
    hours: list[tuple[float, float]] = []
    for workload in (1, 2):
        points = [Point(p, workload, s) for s in seeds_of(seed, SEEDS) for p in POLICIES]
        frame = frame_of(points, lambda done, total, what: tell(f"themis: {what}"))
        found = [float(np.median(values)) for values in over_themis(frame, "max_rho").values()]
        rho += [(min(found), RHO[0]), (max(found), RHO[1])]
        if workload == 2:
            over = over_themis(frame, "gpu_hours")
            hours += [(float(np.median(over[policy])), paper) for policy, paper in GPU_TIME.items()]
    said: dict[str, Any] = {
        "kind": "published", "world": "sharing", "measured_by": "Mahajan et al., on their testbed", "on": "64 GPUs",
        "date": "2020", "sample": "out",
        "model": f"the sharing world, {SEEDS} draws of the drawn workloads, policies as their papers have them",
    }  # fmt: skip
    return (
        Line(
            what="largest finish-time unfairness ρ of the best and the worst other policy over Themis', two workloads",
            why="the trace is not public: apps are drawn by what the paper says; nothing is fitted to its results",
            source="Themis (NSDI '20), §6.2; `meshwright reproduce themis/fig09 themis/fig10`",
            errors=Errors.relative(*zip(*rho, strict=True)), **said,
        ),
        Line(
            what="GPU time under Gandiva and SLAQ over Themis', Workload 2",
            why="as above; how well the paper's other policies place jobs is not said",
            source="Themis (NSDI '20), Fig. 12; `meshwright reproduce themis/fig12`",
            errors=Errors.relative(*zip(*hours, strict=True)), **said,
        ),
    )  # fmt: skip
