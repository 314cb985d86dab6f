"""Figure 14 (Themis): largest ρ on the whole, half and a quarter of the cluster, Workload 1."""

from __future__ import annotations

from pathlib import Path

from ..claims import Claim, Expectation, at_most
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLACK, canvas, outside_legend
from .experiments.assumptions import Headline, all_policies, best_other, sensitivities
from .experiments.points import COLOURS, NOTES, POLICIES, Point, competing, frame_of, seeds_of, shown

TIMES = (1, 2, 4)

EXPECTED = {
    "incentive": Expectation(
        "Themis' max ρ at 4× contention (maintains sharing incentive)", "§6.2.2", "about 1",
        at_most(1.1, partly=1.5), "{:.2f}",
    ),
    "only": Expectation(
        "other policies whose max ρ at 4× is no more than Themis' (the only one)", "§6.2.2", "0", at_most(0), "{:.0f}"
    ),
    "srsf": Expectation(
        "other policies whose max ρ at 4× is less than SRSF's (comes close)", "§6.2.2", "0", at_most(0, partly=1),
        "{:.0f}",
    ),
}  # fmt: skip

HEADLINES = (
    Headline(
        "Themis' max ρ at 4× contention", "", 1.0, lambda frame: float(frame.max_rho.median()),
        (Point("themis", 1, contention=4),),
    ),
    Headline(
        "the best other policy's max ρ at 4×", "× Themis' (the paper: more than 1)", 1.0, best_other("max_rho"),
        all_policies(Point("themis", 1, contention=4)),
    ),
)  # fmt: skip

KEYS = ("excess", "demand", "spread", "leases", "optimus", "waiting", "payments", "filter")

WHY = (
    "tested on the eight draws: with leases that end apart, where one GPU is on offer at a time, Themis has 1.09 "
    "[1.07, 1.31], and SRTF and SRSF, which finish small apps first, whose T_id is small, 0.94 [0.87, 1.02] and "
    "0.94 [0.87, 1.00] times that; with leases that end together 1.13 [1.03, 1.16] times Themis'"
)


def judged(frame: Frame) -> list[Claim]:
    """Judge the claims, each by the median over seeds."""
    most = frame[frame.contention == max(TIMES)]
    middle = most.groupby("policy").max_rho.median()
    mine = most[most.policy == "themis"].max_rho.tolist()
    no_more = [p for p in POLICIES if p != "themis" and middle[p] <= middle["themis"]]
    less = [p for p in POLICIES if p not in ("themis", "srsf") and middle[p] < middle["srsf"]]
    listed = ", ".join(f"{p} {middle[p]:.2f}" for p in no_more)
    near = ", ".join(f"{p} {middle[p]:.3f}" for p in less)
    return [
        EXPECTED["incentive"].judge(float(middle["themis"]), shown=shown(mine), why=WHY),
        EXPECTED["only"].judge(len(no_more), shown=f"{len(no_more)} ({listed})" if no_more else "0", why=WHY),
        EXPECTED["srsf"].judge(len(less), why=f"less than SRSF's {middle['srsf']:.3f}: {near}"),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: two seeds instead of eight, without 2×."""
    session = Session("themis/fig14", fast, out, seed)
    seeds = seeds_of(seed, 2 if fast else 8)
    times = (min(TIMES), max(TIMES)) if fast else TIMES
    points = [Point(p, 1, s, contention=k) for k in times for s in seeds for p in POLICIES]
    frame = session.table(frame_of(points, progress))
    with canvas(1, 1, width=4.4, height=2.8) as (figure, axes):
        ax = axes[0, 0]
        for policy in POLICIES:
            middle = frame[frame.policy == policy].groupby("contention").max_rho.median()
            ax.plot(times, [middle[k] for k in times], color=COLOURS[policy], marker="o", label=policy)
        ax.axhline(1.0, color=BLACK, lw=0.6, ls=":")
        ax.set(xlabel="contention", ylabel="max ρ", yscale="log")
        ax.set_xticks(times, [f"{k}×" for k in times])
        outside_legend(figure, ax)
        session.figure(figure)
    crowds = (competing([p for p in points if p.contention == k]) for k in times)
    more = () if fast else sensitivities(HEADLINES, seeds[:2], progress, KEYS)
    return session.finish(
        judged(frame), notes=(*NOTES, *(f"{k}×: {said}" for k, said in zip(times, crowds, strict=True))),
        sensitivity=more,
    )  # fmt: skip


if __name__ == "__main__":
    main("themis/fig14")
