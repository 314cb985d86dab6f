"""Figure 10 (Collage; thesis 2.10 and 2.9b): what the graph level gains over the op level, over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..claims import Claim, Expectation, at_least, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREEN, ORANGE, PURPLE, VERMILLION, canvas
from .campaign.parts import Part
from .campaign.records import Campaign, Search
from .fig07 import best_framework
from .picture import signed
from .shown import notes, of_figure
from .systems import NETWORKS, OP_LEVEL, TITLES

HALF_HOUR = 1800.0
FLAT = 1.01
"""A search is saturated if its second half makes the best placement faster by less than this: ours."""
GAIN = between(1.09, 1.20, partly=(1.03, 1.26), beyond="above")

EXPECTED = {
    "BERT": Expectation(
        "BERT: the graph level makes the op level's placement faster", "§2.5.3, Fig. 2.10", "1.09 to 1.20×", GAIN,
        "{:.2f}×", timed=True,
    ),
    "DCGAN": Expectation(
        "DCGAN: the graph level makes the op level's placement faster", "§2.5.3, Fig. 2.10", "1.09 to 1.20×", GAIN,
        "{:.2f}×", timed=True,
    ),
    "others": Expectation(
        "for the other three the graph level cannot improve any further (the largest gain)", "§2.5.3, Fig. 2.10",
        "no gain", at_most(1.03, partly=1.09), "{:.2f}×", timed=True,
    ),
    "saturated": Expectation(
        "most workloads reach saturation within thirty minutes (networks whose best placement gains less than 1 % in "
        "the second half of a search that ends before)", "§2.5.3, Fig. 2.10", "most of 5",
        at_least(3, partly=2), "{:.0f} of 5", timed=True,
    ),
}  # fmt: skip

COLOURS: Mapping[str, str] = dict(zip(NETWORKS, (BLUE, ORANGE, GREEN, VERMILLION, PURPLE), strict=True))


def searches(campaign: Campaign) -> dict[str, Search]:
    """Network -> its search."""
    found = {name: campaign.contest(name) for name in NETWORKS}
    return {name: one.search for name, one in found.items() if one is not None and one.search is not None}


def over_time(found: dict[str, Search]) -> Frame:
    """Columns network, seconds, speedup (of the best so far, over the op level), library, bits."""
    import pandas as pd

    rows: list[dict[str, object]] = []
    for name, search in found.items():
        for at in search.at_s:
            rows.append({"network": name, "seconds": at, "speedup": search.best(at), "library": search.library,
                         "bits": search.bits})  # fmt: skip
    return pd.DataFrame(rows)


def saturated(search: Search) -> bool:
    """Whether its second half gained next to nothing, and it ended within half an hour."""
    end = search.at_s[-1]
    return end <= HALF_HOUR and search.best() / search.best(end / 2) < FLAT


def judged(campaign: Campaign) -> list[Claim]:
    """Judge our numbers: gains as they were in the contest, where the found placement and the op level take turns."""
    found = searches(campaign)
    gains: dict[str, float] = {}
    for name in found:
        contest = campaign.contest(name)
        assert contest is not None
        gains[name] = contest.speedup("Collage, graph level", OP_LEVEL)
    others = {name: gain for name, gain in gains.items() if name not in ("bert-base", "dcgan")}
    largest = max(others, key=lambda name: others[name])

    def beside(name: str) -> str:
        contest = campaign.contest(name)
        assert contest is not None
        best = best_framework(contest)
        n, share = sum(unit.backend == found[name].library for unit in contest.op_level), len(contest.op_level)
        return (
            f"the op level cuts {TITLES[name]} into {share} groups ({n} on {found[name].library}) and takes "
            f"{1 / contest.speedup(OP_LEVEL, best):.2f}× what {best} takes for the whole; regions joined on "
            f"{found[name].library} win that back ({len(found[name].ratio)} placements tried)"
        )

    rising = [TITLES[name] for name, search in found.items() if not saturated(search)]
    flat = sum(map(saturated, found.values()))
    tries = ", ".join(f"{TITLES[name]} {len(search.ratio)}" for name, search in found.items())
    return [
        EXPECTED["BERT"].judge(gains["bert-base"], why=beside("bert-base")),
        EXPECTED["DCGAN"].judge(gains["dcgan"], why=beside("dcgan")),
        EXPECTED["others"].judge(others[largest], why=beside(largest)),
        EXPECTED["saturated"].judge(
            flat,
            shown=f"{flat} of {len(found)}; placements tried: {tries}",
            why=f"still rising when their {next(iter(found.values())).budget_s:.0f} s ended: {', '.join(rising)}",
        ),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: the shipped campaign; full: measured here."""
    session = Session("collage/fig10", fast, out, seed)
    campaign = of_figure(fast, out, [Part("contest", name) for name in NETWORKS], progress)
    found = searches(campaign)
    frame = session.table(over_time(found))
    with canvas(1, 1, width=5.6, height=3.1) as (figure, axes):
        ax = axes[0, 0]
        for name, search in found.items():
            rows = frame[frame.network == name]
            label = f"{TITLES[name]} ({search.library}, {search.bits} bits)"
            ax.step([0.0, *rows.seconds], [1.0, *rows.speedup], where="post", color=COLOURS[name], label=label)
        ax.axhspan(1.09, 1.20, color="#EEEEEE", zorder=0)
        ax.set(
            xlabel="seconds of search (grey: the thesis' gain on BERT and DCGAN)", ylabel="speedup over the op level"
        )
        signed(figure, ax, campaign, fast, columns=2)
        session.figure(figure)
    more = [
        "the graph library is the one that is fastest on the whole network by its measured cost; each try is timed "
        "beside the op level in the same rounds, and a process that crashes or hangs counts as a try that cannot run",
        f"each search had {campaign.made.search_s:.0f} s; the thesis' is half an hour",
    ]
    return session.finish(judged(campaign), [*notes(campaign, fast), *more])


if __name__ == "__main__":
    main("collage/fig10")
