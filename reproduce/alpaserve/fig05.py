"""Figure 5 (AlpaServe): mean and P99 latency against the arrival rate, replication and an eight-stage pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..claims import Expectation, at_least, at_most
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sampling import summarise
from ..style import canvas, outside_legend
from .experiments import eight_models as setup

RATES = (2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 22.0, 24.0, 26.0, 28.0, 30.0, 32.0)

PLACEMENTS = {
    "replication": setup.replication(setup.REPLICAS_IN_13_GB),
    "model parallel": setup.model_parallel(8),
}

EXPECTED = {
    "low": Expectation(
        "at low rates (4/s) model parallelism greatly reduces the mean latency",
        "§3.2, Fig. 5",
        "> 1",
        at_least(1.2, partly=1.0),
        "{:.2f}×",
    ),
    "medium": Expectation(
        "so it does at the base rate (20/s)", "§3.2, Fig. 5", "> 1", at_least(1.2, partly=1.0), "{:.2f}×"
    ),
    "vanishes": Expectation(
        "near the peak rate of the cluster the benefit is gone: the gain at 30/s over that at 20/s",
        "§3.2, Fig. 5",
        "< 1",
        at_most(0.9, partly=1.0),
        "{:.2f}",
    ),
    "worse": Expectation(
        "saturated (32/s), it is worse than replication",
        "§3.2, Fig. 5",
        "< 1",
        at_most(1.0),
        "{:.2f}×",
    ),
}


def latencies(
    rates: Sequence[float], duration: float, repetitions: int, seed: int, progress: Progress = quiet
) -> Frame:
    """Simulate both placements at every rate, on the same arrivals.

    Returns
    -------
    DataFrame
        Columns rate_per_s, system, mean_latency_s, p99_latency_s, and their 95 % half-widths ``…_ci``.
    """
    import pandas as pd

    profiles = setup.load_profiles()
    rows = []
    for i, rate in enumerate(rates):
        progress(i, len(rates), f"{rate:g} requests/s")
        for r in range(repetitions):
            trace = setup.traffic(rate, setup.CV, duration, seed + r)
            rows += setup.latency_rows(PLACEMENTS, trace, profiles, rate_per_s=rate)
    progress(len(rates), len(rates), "")
    return summarise(pd.DataFrame(rows), ("rate_per_s", "system"), ("mean_latency_s", "p99_latency_s"))


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: 20 traces of 3,600 s per rate; fast: 5 of 900 s."""
    session = Session("alpaserve/fig05", fast, out, seed)
    frame = latencies(RATES, 900.0 if fast else 3600.0, 5 if fast else 20, seed, progress)
    session.table(frame)
    with canvas(1, 2, height=2.9) as (figure, axes):
        for ax, y in zip(axes.flat, ("mean_latency_s", "p99_latency_s"), strict=True):
            setup.draw_latency(frame, ax, x="rate_per_s", y=y, xlabel="total rate (requests/s)", log=True)
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    mean = frame.pivot(index="rate_per_s", columns="system", values="mean_latency_s")
    gain = mean["replication"] / mean["model parallel"]
    profiles = setup.load_profiles()
    peaks = ", ".join(f"{name} {setup.peak_rate(p, profiles):.1f}/s" for name, p in PLACEMENTS.items())
    return session.finish(
        [
            EXPECTED["low"].judge(gain[4.0]),
            EXPECTED["medium"].judge(gain[20.0]),
            EXPECTED["vanishes"].judge(gain[30.0] / gain[20.0]),
            EXPECTED["worse"].judge(gain[32.0]),
        ],
        notes=[
            "replication: two models per device, what 13 GB hold; model parallel: one pipeline of eight stages",
            f"peak rates: {peaks}; above them latency grows with the length of the trace",
        ],
    )


if __name__ == "__main__":
    main("alpaserve/fig05")
