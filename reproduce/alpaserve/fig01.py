"""Figure 1 (AlpaServe; thesis 4.1): a burst of four requests on two devices, with and without model parallelism."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...profiles import ModelProfile, ParallelConfig
from ...simulator import Group, Placement, SimulationResult, simulate
from ...traces import Trace
from ..claims import Expectation, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, VERMILLION, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ONE, TWO = ParallelConfig(1, 1), ParallelConfig(1, 2)
MODELS = ("A", "B")
OVERHEAD = 0.1
"""Model-parallel overhead (§1). The paper's finishes 1.1, 1.6, 2.1, 2.6 are half a unit apart, so it delays requests
between the stages and occupies neither."""

PROFILES = {
    name: ModelProfile.from_stages(name, {ONE: {1: [1.0]}, TWO: {1: [0.5, 0.5]}}, hop_s={TWO: OVERHEAD})
    for name in MODELS
}
PLACEMENTS = {
    "simple": Placement([Group(ONE, ["A"]), Group(ONE, ["B"])]),
    "model parallel": Placement([Group(TWO, MODELS)]),
}
BURST = Trace(arrival=[0.0] * 4, model=["A"] * 4, models=MODELS)

EXPECTED = {
    "simple": Expectation(
        "one model per device: mean latency of the burst",
        "§1, Fig. 1a",
        "2.5 y",
        between(2.5 - 1e-9, 2.5 + 1e-9),
        "{:.3f} y",
        kind="identity",
    ),
    "model parallel": Expectation(
        "both models over both devices: mean latency of the burst",
        "§1, Fig. 1b",
        "1.85 y",
        between(1.85 - 1e-9, 1.85 + 1e-9),
        "{:.3f} y",
        kind="identity",
    ),
}


def burst() -> dict[str, SimulationResult]:
    """Simulate the burst under both placements."""
    return {system: simulate(placement, BURST, PROFILES) for system, placement in PLACEMENTS.items()}


def spans(results: dict[str, SimulationResult]) -> Frame:
    """Every stage visit: columns system, lane, request, start, end (in units of y)."""
    import pandas as pd

    parts = []
    for system, result in results.items():
        t = result.timeline()
        parts.append(
            pd.DataFrame({"system": system, "lane": t.lane, "request": t.request + 1, "start": t.start, "end": t.end})
        )
    return pd.concat(parts, ignore_index=True)


def draw(frame: Frame, system: str, ax: Axes) -> Axes:
    """Draw the timeline of one placement."""
    part = frame[frame.system == system]
    colour = VERMILLION if system == "simple" else BLUE
    for row in part.itertuples(index=False):
        ax.barh(row.lane, row.end - row.start, left=row.start, height=0.7, color=colour, alpha=0.85, edgecolor="white")
        ax.text((row.start + row.end) / 2, row.lane, str(row.request), ha="center", va="center", color="white")
    ax.set_yticks([0, 1], ["device 1", "device 2"])
    ax.set(ylim=(1.6, -0.6), xlim=(0, 4.1), xlabel="time (y = latency on one device)", title=system)
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; nothing in it is random, and fast is full."""
    session = Session("alpaserve/fig01", fast, out, seed)
    results = burst()
    frame = session.table(spans(results))
    with canvas(1, 2, height=1.7) as (figure, axes):
        for system, ax in zip(PLACEMENTS, axes.flat, strict=True):
            draw(frame, system, ax)
        session.figure(figure)
    return session.finish(EXPECTED[system].judge(float(np.mean(result.finish))) for system, result in results.items())


if __name__ == "__main__":
    main("alpaserve/fig01")
