"""Figure 10: the greatest overheads with which two pipelined models still fare as well as one device for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ... import traces
from ...profiles import ModelProfile, ParallelConfig
from ...simulator import Group, Placement, simulate
from ...simulator.serving.queueing import frontier
from ..claims import Expectation, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sampling import half_width
from ..style import BLUE, VERMILLION, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LATENCY_S = 0.4  # of one request on one device; the frontier is in λD, so that its value cancels
CHECKED = (0.5, 1.0, 1.5)
"""Total utilizations λD at which the frontier is held against simulation."""

EXPECTED = {
    "busy": Expectation(
        "at high utilization hardly any overhead is bearable (larger of α − 1 and β − 1 at λD = 1.98)",
        "§3.4, Fig. 10",
        "→ 0",
        at_most(0.05),
        "{:.3f}",
        kind="identity",
    ),
    "idle alpha": Expectation(
        "at low utilization the communication overhead must be low too (α − 1 at λD = 0.02)",
        "§3.4, Fig. 10",
        "→ 0",
        at_most(0.05),
        "{:.3f}",
        kind="identity",
    ),
    "hump": Expectation(
        "in between, α is largest: its maximum lies strictly inside (utilization of the maximum)",
        "§3.4, Fig. 10",
        "inside",
        between(0.2, 1.8),
        "λD = {:.2f}",
        kind="identity",
    ),
    "idle beta": Expectation(
        "the bearable unevenness falls with utilization, from √2 (β at λD = 0.02)",
        "§3.4, Fig. 10",
        "√2 (from the formulas)",
        between(1.38, 1.4143),
        "{:.3f}",
        kind="identity",
    ),
    "simulated": Expectation(
        "simulated on the frontier, both placements have the same mean latency (largest relative difference)",
        "§3.4",
        "0 %",
        at_most(0.02, partly=0.05),
        "{:.1%}",
    ),
}


def curves(points: int) -> Frame:
    """The frontier: columns utilization (λD), alpha, beta."""
    import pandas as pd

    # Not to 0 and 2: at these ends, an idle and a saturated device, the frontier is only a limit.
    x = np.linspace(0.02, 1.98, points)
    both = frontier(x)
    return pd.DataFrame({"utilization": x, "alpha": both.alpha, "beta": both.beta})


def simulated(requests: int, repetitions: int, seed: int, progress: Progress = quiet) -> Frame:
    """Mean latencies on the frontier, relative to the simple placement on the same arrivals.

    Returns
    -------
    DataFrame
        Columns utilization, overhead ("alpha" or "beta"), value, relative_difference, ci (95 % half-width).
    """
    import pandas as pd

    one, two = ParallelConfig(1, 1), ParallelConfig(1, 2)
    models = ("a", "b")
    simple = Placement([Group(one, ["a"]), Group(one, ["b"])])
    pipelined = Placement([Group(two, models)])
    rows = []
    for i, x in enumerate(CHECKED):
        progress(i, len(CHECKED), f"λD = {x:g}")
        both = frontier(x)
        alpha, beta = float(both.alpha), float(both.beta)
        stages = {
            # α stretches both stages; β keeps the sum and makes one of them longer.
            "alpha": (alpha, [alpha * LATENCY_S / 2] * 2),
            "beta": (beta, [beta * LATENCY_S / 2, (2 - beta) * LATENCY_S / 2]),
        }
        differences: dict[str, list[float]] = {name: [] for name in stages}
        for r in range(repetitions):
            trace = traces.poisson(x / LATENCY_S, requests * LATENCY_S / x, models, seed=seed + r)
            for name, (_, cut) in stages.items():
                profiles = {m: ModelProfile.from_stages(m, {one: {1: [LATENCY_S]}, two: {1: cut}}) for m in models}
                means = [simulate(p, trace, profiles).mean_latency for p in (simple, pipelined)]
                differences[name].append(means[1] / means[0] - 1.0)
        rows += [
            {
                "utilization": x,
                "overhead": name,
                "value": stages[name][0],
                "relative_difference": float(np.mean(values)),
                "ci": half_width(values),
            }
            for name, values in differences.items()
        ]
    progress(len(CHECKED), len(CHECKED), "")
    return pd.DataFrame(rows)


def draw(frame: Frame, checks: Frame, ax: Axes) -> Axes:
    """Draw both curves, and the points at which simulation checked them."""
    for name, colour, label in (
        ("alpha", BLUE, "communication, α"),
        ("beta", VERMILLION, "uneven partition, β"),
    ):
        ax.plot(frame.utilization, frame[name], color=colour, label=f"greatest {label}")
        mine = checks[checks.overhead == name]
        ax.plot(mine.utilization, mine.value, "o", color=colour, markersize=6, markerfacecolor="white")
    ax.plot([], [], "o", color="#555555", markersize=6, markerfacecolor="white", label="checked by simulation")
    ax.set(xlabel="total utilization λD", ylabel="greatest overhead factor", ylim=(0.98, 1.45), xlim=(0, 2))
    ax.set_title("W_pipeline ≤ W_simple below the curves")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: 10 simulations of 200,000 requests per point; fast: 5 of 50,000."""
    session = Session("alpaserve/fig10", fast, out, seed)
    frame = session.table(curves(99))
    requests, repetitions = (50_000, 5) if fast else (200_000, 10)
    checks = session.table(simulated(requests, repetitions, seed, progress), "-simulated")
    with canvas(width=6.0, height=3.0) as (figure, axes):
        draw(frame, checks, axes[0, 0])
        session.figure(figure)

    last, first = frame.iloc[-1], frame.iloc[0]
    falling = bool((np.diff(frame.beta) < 0).all())
    return session.finish(
        [
            EXPECTED["busy"].judge(max(last.alpha, last.beta) - 1.0),
            EXPECTED["idle alpha"].judge(first.alpha - 1.0),
            EXPECTED["hump"].judge(frame.utilization[frame.alpha.argmax()]),
            EXPECTED["idle beta"].judge(first.beta if falling else float("nan")),
            EXPECTED["simulated"].judge(checks.relative_difference.abs().max()),
        ]
    )


if __name__ == "__main__":
    main("alpaserve/fig10")
