"""Figure 17 (Themis): largest ρ when agents err."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..claims import Claim, Expectation, at_most
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, canvas
from .experiments.intensive import CLUSTER_NOTE
from .experiments.points import NOTES, Point, competing, frame_of, seeds_of, shown

ERRORS = (0.0, 0.05, 0.1, 0.2)

EXPECTED = {
    "twenty": Expectation(
        "max ρ at errors of ±20 %: change against none, up or down", "§6.3", "10.76 %", at_most(0.15, partly=0.3),
        "{:.1%}",
    ),
}  # fmt: skip


def judged(frame: Frame) -> list[Claim]:
    """Judge the claims by the ratio's median over seeds."""
    wide = frame.pivot(index="seed", columns="error", values="max_rho")
    ratio = (wide[max(ERRORS)] / wide[0.0]).tolist()
    return [
        EXPECTED["twenty"].judge(
            abs(float(np.median(ratio)) - 1.0), shown=f"{np.median(ratio) - 1.0:+.1%}, as a ratio {shown(ratio)}",
            why="a few seeds, and the largest of 85 numbers",
        )
    ]  # fmt: skip


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: one seed instead of eight."""
    session = Session("themis/fig17", fast, out, seed)
    seeds = seeds_of(seed, 1 if fast else 8)
    points = [Point("themis", 2, s, heterogeneous=True, error=x) for x in ERRORS for s in seeds]
    frame = session.table(frame_of(points, progress))
    with canvas(1, 1, width=3.4, height=2.6) as (figure, axes):
        ax, middle = axes[0, 0], frame.groupby("error").max_rho.median()
        ax.bar([f"{x:.0%}" for x in ERRORS], [middle[x] for x in ERRORS], color=BLUE)
        ax.set(xlabel="error of iterations and slowdown, ±", ylabel="max ρ")
        session.figure(figure)
    return session.finish(judged(frame), notes=(*NOTES, CLUSTER_NOTE, competing(points)))


if __name__ == "__main__":
    main("themis/fig17")
