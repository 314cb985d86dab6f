"""Figure 4 (AlpaServe): mean and P99 latency against the memory of a device, replication and model parallelism."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..claims import Expectation, at_least, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sampling import summarise
from ..style import BLACK, canvas, outside_legend
from .experiments import eight_models as setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

USABLE_GB = 13.0
"""Usable memory of a 16 GB V100 (Fig. 4's dashed line)."""

EXPECTED = {
    "limited": Expectation(
        "with room for one model per device, model parallelism cuts the mean latency (replication over model parallel)",
        "§3.2, Fig. 4",
        "> 1",
        at_least(1.2, partly=1.0),
        "{:.2f}×",
    ),
    "limited p99": Expectation(
        "with room for one model per device, it cuts the P99 latency",
        "§3.2, Fig. 4",
        "> 1",
        at_least(1.2, partly=1.0),
        "{:.2f}×",
    ),
    "v100": Expectation(
        "at the 13 GB of a V100 it still cuts the mean latency",
        "§3.2, Fig. 4",
        "> 1",
        at_least(1.05, partly=1.0),
        "{:.2f}×",
    ),
    "ample": Expectation(
        "with room for all models on every device there is no gain",
        "§3.2, Fig. 4",
        "1×",
        between(0.95, 1.05),
        "{:.2f}×",
    ),
    "shrinks": Expectation(
        "the gain shrinks with memory: replication's excess at one model per device over that at six",
        "§3.2, Fig. 4",
        "> 1",
        at_least(2.0, partly=1.0),
        "{:.1f}",
    ),
}


def latencies(duration: float, repetitions: int, seed: int, progress: Progress = quiet) -> Frame:
    """Simulate both placements at budgets of one to eight models per device, on the same arrivals.

    Returns
    -------
    DataFrame
        Columns budget (models per device), memory_gb, system, stages, mean_latency_s, p99_latency_s, and their
        95 % half-widths ``…_ci``.
    """
    import pandas as pd

    profiles = setup.load_profiles()
    budgets = range(1, len(setup.MODELS) + 1)
    rows = []
    for r in range(repetitions):
        progress(r, repetitions, "traces")
        trace = setup.traffic(setup.RATE, setup.CV, duration, seed + r)
        for budget in budgets:
            placements = {
                "replication": setup.replication(budget),
                "model parallel": setup.model_parallel(setup.stages_for_budget(budget)),
            }
            for row in setup.latency_rows(placements, trace, profiles, budget=budget):
                stages = 1 if row["system"] == "replication" else setup.stages_for_budget(budget)
                rows.append(row | {"stages": stages, "memory_gb": budget * setup.SIZE_GB})
    progress(repetitions, repetitions, "")
    by = ("budget", "memory_gb", "system", "stages")
    return summarise(pd.DataFrame(rows), by, ("mean_latency_s", "p99_latency_s"))


def draw(frame: Frame, ax: Axes, y: str) -> Axes:
    """Draw one panel: `y` against memory."""
    setup.draw_latency(frame, ax, x="memory_gb", y=y, xlabel="memory per device for weights (GB)")
    ax.axvline(USABLE_GB, color=BLACK, linestyle="--", linewidth=1, label="usable on a 16 GB V100")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: 20 traces of 3,600 s; fast: 5 of 900 s."""
    session = Session("alpaserve/fig04", fast, out, seed)
    frame = latencies(900.0 if fast else 3600.0, 5 if fast else 20, seed, progress)
    session.table(frame)
    with canvas(1, 2, height=2.9) as (figure, axes):
        draw(frame, axes[0, 0], "mean_latency_s")
        draw(frame, axes[0, 1], "p99_latency_s")
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    mean = frame.pivot(index="budget", columns="system", values="mean_latency_s")
    tail = frame.pivot(index="budget", columns="system", values="p99_latency_s")
    gain = mean["replication"] / mean["model parallel"]
    excess = mean["replication"] - mean["model parallel"]
    v100 = int(USABLE_GB // setup.SIZE_GB)
    return session.finish(
        [
            EXPECTED["limited"].judge(gain[1]),
            EXPECTED["limited p99"].judge(tail.loc[1, "replication"] / tail.loc[1, "model parallel"]),
            EXPECTED["v100"].judge(gain[v100]),
            EXPECTED["ample"].judge(gain[8]),
            EXPECTED["shrinks"].judge(
                float("inf") if excess[6] <= 0 else excess[1] / excess[6],
                shown=f"{excess[1]:.2f} s against {excess[6]:.2f} s",
            ),
        ],
        notes=[
            f"{setup.RATE:g} requests/s are of all models together: per model they would need 38 devices",
            "model parallel: as few stages as let every pipeline hold all eight models (8, 4, 2, 1)",
        ],
    )


if __name__ == "__main__":
    main("alpaserve/fig04")
