"""Figure 6: mean and P99 latency against the CV of the arrivals, replication and an eight-stage pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..claims import Expectation, at_least
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sampling import summarise
from ..style import canvas, outside_legend
from .experiments import eight_models as setup

CVS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)

PLACEMENTS = {
    "replication": setup.replication(setup.REPLICAS_IN_13_GB),
    "model parallel": setup.model_parallel(8),
}

EXPECTED = {
    "grows": Expectation(
        "the more bursty, the larger the benefit: seconds of mean latency saved at CV 8 over those at CV 2",
        "§3.2, Fig. 6",
        "> 1",
        at_least(2.0, partly=1.0),
        "{:.1f}",
    ),
    "mean": Expectation(
        "at high CV (8) model parallelism greatly reduces the mean latency",
        "§3.2, Fig. 6",
        "> 1",
        at_least(1.5, partly=1.0),
        "{:.2f}×",
    ),
    "tail": Expectation(
        "at high CV (8) it greatly reduces the P99 latency",
        "§3.2, Fig. 6",
        "> 1",
        at_least(1.5, partly=1.0),
        "{:.2f}×",
    ),
}


def latencies(cvs: Sequence[float], duration: float, repetitions: int, seed: int, progress: Progress = quiet) -> Frame:
    """Simulate both placements at every CV, on the same arrivals.

    Returns
    -------
    DataFrame
        Columns cv, system, mean_latency_s, p99_latency_s, and their 95 % half-widths ``…_ci``.
    """
    import pandas as pd

    profiles = setup.load_profiles()
    rows = []
    for i, cv in enumerate(cvs):
        progress(i, len(cvs), f"CV {cv:g}")
        for r in range(repetitions):
            trace = setup.traffic(setup.RATE, cv, duration, seed + r)
            rows += setup.latency_rows(PLACEMENTS, trace, profiles, cv=cv)
    progress(len(cvs), len(cvs), "")
    return summarise(pd.DataFrame(rows), ("cv", "system"), ("mean_latency_s", "p99_latency_s"))


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: 20 traces of 3,600 s per CV; fast: 5 of 900 s."""
    session = Session("alpaserve/fig06", fast, out, seed)
    frame = latencies(CVS, 900.0 if fast else 3600.0, 5 if fast else 20, seed, progress)
    session.table(frame)
    with canvas(1, 2, height=2.9) as (figure, axes):
        for ax, y in zip(axes.flat, ("mean_latency_s", "p99_latency_s"), strict=True):
            setup.draw_latency(frame, ax, x="cv", y=y, xlabel="CV of inter-arrival times")
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    mean = frame.pivot(index="cv", columns="system", values="mean_latency_s")
    tail = frame.pivot(index="cv", columns="system", values="p99_latency_s")
    profiles = setup.load_profiles()
    loads = {name: setup.RATE / setup.peak_rate(p, profiles) for name, p in PLACEMENTS.items()}
    why = (
        f"with equally many layers per stage the pipeline is {loads['model parallel']:.0%} loaded, replication only "
        f"{loads['replication']:.0%}, and the longest bursts are bounded by capacity"
    )
    saved = mean["replication"] - mean["model parallel"]
    return session.finish(
        [
            EXPECTED["grows"].judge(
                saved[8.0] / saved[2.0] if saved[2.0] > 0 else float("inf"),
                shown=f"{saved[8.0]:.2f} s against {saved[2.0]:.2f} s",
            ),
            EXPECTED["mean"].judge(mean.loc[8.0, "replication"] / mean.loc[8.0, "model parallel"], why=why),
            EXPECTED["tail"].judge(tail.loc[8.0, "replication"] / tail.loc[8.0, "model parallel"], why=why),
        ],
        notes=[f"{setup.RATE:g} requests/s of all models together"],
    )


if __name__ == "__main__":
    main("alpaserve/fig06")
