"""Figures 15 and 16 as one: 0 to 100 % network-intensive apps, Workload 2 on the simulated cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...claims import Claim, Expectation, at_most, between
from ...report import Frame, Progress, Report, Session
from ...style import canvas, outside_legend
from .assumptions import Headline, all_policies, best_other, of_policy, sensitivities, worst_other
from .points import COLOURS, NOTES, POLICIES, Point, competing, frame_of, over_themis, seeds_of, shown
from .rules import ratio

__all__ = ["CLUSTER_NOTE", "FAIRNESS", "TIME", "judged_fairness", "judged_time", "make"]

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)

FAIRNESS = {
    "least": Expectation(
        "100 % network-intensive: max ρ of the best other policy over Themis'", "§6.3, Fig. 15", "1.24×",
        ratio(1.24), "{:.2f}×",
    ),
    "most": Expectation(
        "100 % network-intensive: max ρ of the worst other policy over Themis'", "§6.3, Fig. 15", "1.77×",
        ratio(1.77), "{:.2f}×",
    ),
    "closest": Expectation(
        "shares of network-intensive apps at which another policy's max ρ is below Themis'", "§6.3", "0", at_most(0),
        "{:.0f}",
    ),
    "mix": Expectation(
        "share of network-intensive apps at which the policies' mean of max ρ is largest", "§6.3", "40–60 %",
        between(0.4, 0.6, partly=(0.2, 0.8)), "{:.0%}",
    ),
}  # fmt: skip

TIME = {
    "equal": Expectation(
        "0 %: the policies' largest GPU time over the smallest (equally efficient)", "§6.3, Fig. 16", "1",
        at_most(1.05, partly=1.1), "{:.3f}×",
    ),
    "gandiva": Expectation(
        "100 %: Gandiva's GPU time over Themis'", "§6.3, Fig. 16", "1.081×", ratio(1.081),
        "{:.3f}×",
    ),
    "best": Expectation(
        "100 %: other policies that take less GPU time than Themis", "§6.3, Fig. 16", "0", at_most(0), "{:.0f}"
    ),
}  # fmt: skip

ALL = all_policies(Point("themis", 2, heterogeneous=True, intensive=1.0))

HEADLINES = {
    "max_rho": (
        Headline("100 %: the best other policy's max ρ", "× Themis'", 1.24, best_other("max_rho"), ALL),
        Headline("100 %: the worst other policy's max ρ", "× Themis'", 1.77, worst_other("max_rho"), ALL),
    ),
    "gpu_hours": (
        Headline("100 %: Gandiva's GPU time", "× Themis'", 1.081, of_policy("gandiva", "gpu_hours"), ALL),
    ),
}  # fmt: skip

KEYS = ("excess", "demand", "leases", "optimus", "waiting", "payments")

WHY = (
    "tested on eight draws: the best other is Optimus, at 1.08 [1.03, 1.13], the next SRSF, at 1.35 [1.26, 1.45], and "
    "SLAQ the worst, at 6.4 [5.6, 9.0]; Optimus takes 0.91 [0.91, 0.93] times Themis' GPU time, Gandiva 1.09 [1.07, "
    "1.12]. If Optimus asks each app once it is at 1.70 [1.57, 1.96] and takes 1.10 [1.08, 1.11] times Themis' GPU "
    "time: then SRSF, at 1.35, is the best other, and nobody takes less than Themis"
)

CLUSTER_NOTE = (
    "a quarter of each kind of machine of the 256-GPU cluster: 4 of 8 GPUs, 7 of 4, 4 of 1; a model is called "
    "network-intensive if two machines slow it by 5 % or more"
)

RESTARTS = "tested on eight draws: with restarts that cost nothing, the policies' GPU times are within 0.1 %"


def judged_fairness(frame: Frame) -> list[Claim]:
    """Judge Figure 15's claims, each by the median over seeds."""
    ratios = over_themis(frame[frame.intensive == 1.0], "max_rho")
    middle = {p: float(np.median(v)) for p, v in ratios.items()}
    best, worst = min(middle, key=middle.__getitem__), max(middle, key=middle.__getitem__)
    table = frame.groupby(["intensive", "policy"]).max_rho.median().unstack()
    below = [k for k, row in table.iterrows() if row.drop("themis").min() < row["themis"]]
    hardest = table.mean(axis=1).idxmax()
    return [
        *(
            FAIRNESS[key].judge(middle[p], shown=f"{shown(ratios[p])}× ({p})", why=WHY)
            for key, p in (("least", best), ("most", worst))
        ),
        FAIRNESS["closest"].judge(len(below), shown=f"{len(below)} of {len(table)}", why=WHY),
        FAIRNESS["mix"].judge(float(hardest), why="the mean is ruled by Gandiva's and SLAQ's"),
    ]  # fmt: skip


def judged_time(frame: Frame) -> list[Claim]:
    """Judge Figure 16's claims, each by the median over seeds."""
    none = frame[frame.intensive == 0.0].pivot(index="seed", columns="policy", values="gpu_hours")
    apart = (none.max(axis=1) / none.min(axis=1)).tolist()
    ratios = over_themis(frame[frame.intensive == 1.0], "gpu_hours")
    below = [p for p in ratios if np.median(ratios[p]) < 1]
    listed = ", ".join(f"{p} {np.median(ratios[p]):.3f}" for p in below)
    return [
        TIME["equal"].judge(
            float(np.median(apart)),
            shown=f"{shown(apart, '{:.3f}')}×",
            why=RESTARTS,
        ),
        TIME["gandiva"].judge(
            float(np.median(ratios["gandiva"])), shown=f"{shown(ratios['gandiva'], '{:.3f}')}×", why=WHY
        ),
        TIME["best"].judge(len(below), shown=f"{len(below)} ({listed})" if below else "0", why=WHY),
    ]


def make(name: str, column: str, fast: bool, out: Path, seed: int, progress: Progress) -> Report:
    """Make one of the figures."""
    session = Session(name, fast, out, seed)
    seeds, shares = seeds_of(seed, 1 if fast else 8), (0.0, 0.4, 1.0) if fast else SHARES
    points = [Point(p, 2, s, heterogeneous=True, intensive=x) for x in shares for s in seeds for p in POLICIES]
    frame = session.table(frame_of(points, progress))
    with canvas(1, 1, width=4.4, height=2.8) as (figure, axes):
        ax = axes[0, 0]
        for policy in POLICIES:
            middle = frame[frame.policy == policy].groupby("intensive")[column].median()
            ax.plot(
                [100 * x for x in shares], [middle[x] for x in shares], color=COLOURS[policy], marker="o", label=policy
            )
        ax.set(xlabel="network-intensive apps (%)", ylabel="max ρ" if column == "max_rho" else "GPU time (hours)")
        ax.set_yscale("log" if column == "max_rho" else "linear")
        outside_legend(figure, ax)
        session.figure(figure)
    claims = judged_fairness(frame) if column == "max_rho" else judged_time(frame)
    more = () if fast else sensitivities(HEADLINES[column], seeds[:2], progress, KEYS)
    return session.finish(claims, notes=(*NOTES, CLUSTER_NOTE, competing(points)), sensitivity=more)
