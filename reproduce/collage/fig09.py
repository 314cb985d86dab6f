"""Figure 9 (Collage; thesis 2.9): what planning takes at the op level, from scratch and once costs are kept."""

from __future__ import annotations

import statistics
from pathlib import Path

from ..claims import Claim, Expectation, at_most, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, ORANGE, canvas
from .campaign.parts import Part
from .campaign.records import Campaign
from .picture import signed
from .shown import notes, of_figure
from .systems import NETWORKS, TITLES

EXPECTED = {
    "profiling": Expectation(
        "measuring costs of operators is most of planning at the op level from scratch (its share, mean of five "
        "networks)", "§2.5.3, Fig. 2.9a", "68 %", within(0.68, 0.15, partly=0.3, beyond="above"), "{:.1%}", timed=True,
    ),
    "scratch": Expectation(
        "from scratch planning at the op level takes up to two minutes (the longest of five networks)", "§2.5.3",
        "at most 120 s", at_most(120, partly=240), "{:.0f} s", timed=True,
    ),
    "logged": Expectation(
        "with all costs known it takes less than a minute (the longest of five networks)", "§2.5.3, Fig. 2.9a",
        "less than 60 s", at_most(60, partly=90), "{:.2f} s", timed=True,
    ),
}  # fmt: skip


def seconds(campaign: Campaign) -> Frame:
    """Columns network, units, profiling_s and search_s from scratch, again_profiling_s and again_search_s, share."""
    import pandas as pd

    rows: list[dict[str, object]] = [
        {
            "network": one.model, "backends": "+".join(one.backends), "units": one.units,
            "profiling_s": one.profile_s, "search_s": one.place_s, "again_profiling_s": one.again_profile_s,
            "again_search_s": one.again_place_s, "share": one.profile_s / (one.profile_s + one.place_s),
        }
        for name in NETWORKS
        for one in campaign.plannings
        if one.model == name
    ]  # fmt: skip
    return pd.DataFrame(rows)


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    scratch, again = frame.profiling_s + frame.search_s, frame.again_profiling_s + frame.again_search_s
    slowest = frame.iloc[int(scratch.to_numpy().argmax())]
    each = slowest.profiling_s / slowest.units
    search = float(frame.search_s.max())
    return [
        EXPECTED["profiling"].judge(
            statistics.fmean(frame.share),
            why=f"the search itself takes at most {search:.2f} s here (Algorithm 1 in Python over bit sets); to make "
            f"profiling 68 % of it, it would have to take {0.32 / 0.68 * slowest.profiling_s:.0f} s",
        ),
        EXPECTED["scratch"].judge(
            float(scratch.max()),
            why=f"{TITLES[slowest.network]}: {slowest.units} different groups, {each:.2f} s each: compiled, checked "
            "against eager on three inputs, and timed in their places among eager neighbours on one core",
        ),
        EXPECTED["logged"].judge(float(again.max())),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: the shipped campaign; full: measured here."""
    session = Session("collage/fig09", fast, out, seed)
    campaign = of_figure(fast, out, [Part("planning", name) for name in NETWORKS], progress)
    frame = session.table(seconds(campaign))
    with canvas(1, 2, width=3.9, height=3.0) as (figure, axes):
        left, right = axes[0]
        at = range(len(frame))
        for ax, profiling, search in (
            (left, frame.profiling_s, frame.search_s), (right, frame.again_profiling_s, frame.again_search_s),
        ):  # fmt: skip
            ax.bar(at, profiling, 0.6, color=ORANGE, label="measuring costs (left), or reading kept ones (right)")
            ax.bar(at, search, 0.6, bottom=profiling, color=BLUE, label="the search (Algorithm 1)")
            ax.set_xticks(at, [TITLES[name] for name in frame.network], rotation=25, ha="right")
            ax.set_ylabel("CPU seconds")
        left.set_title("from scratch")
        right.set_title("once costs are kept")
        signed(figure, left, campaign, fast, columns=2)
        session.figure(figure)
    backends = ", ".join(campaign.plannings[0].backends) if campaign.plannings else ""
    more = [
        f"costs of {backends}: four, as many as the thesis has on its V100",
        "CPU seconds of the planning and the measuring process; the thesis says seconds of a machine with a V100",
        "Fig. 2.9b is the same picture as Fig. 2.10: collage/fig10",
    ]
    return session.finish(judged(frame), [*notes(campaign, fast), *more])


if __name__ == "__main__":
    main("collage/fig09")
