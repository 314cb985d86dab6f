"""Figure 8 (Collage; thesis 2.8): ResNeXt50 at several batch sizes, every framework and Collage."""

from __future__ import annotations

import math
from pathlib import Path

from ..claims import Claim, Expectation, at_least
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import canvas
from .campaign.parts import SWEPT, Part
from .campaign.records import Campaign, Contest
from .fig07 import best_framework, lead
from .picture import grouped, signed
from .shown import notes, of_figure
from .systems import BATCHES, COLLAGE, COLOURS, FRAMEWORKS, OP_LEVEL, TITLES

EXPECTED = {
    "every batch": Expectation(
        "Collage consistently outperforms the frameworks across batch sizes, on a V100; here on a CPU (its lowest "
        "throughput over the best framework's)", "§2.5.2, Fig. 2.8", "above 1", at_least(1.03, partly=0.97), "{:.3f}",
        timed=True,
    ),
}  # fmt: skip


def at_batches(campaign: Campaign) -> list[Contest]:
    """The contests of the swept network, by batch: all that the campaign has."""
    return sorted((one for one in campaign.contests if one.model == SWEPT), key=lambda one: one.batch)


def throughput(campaign: Campaign) -> Frame:
    """Columns group (batch), series, ms, normalised (throughput over Collage's), samples_per_s."""
    import pandas as pd

    rows: list[dict[str, object]] = [
        {
            "group": str(one.batch), "series": FRAMEWORKS.get(way.name, way.name), "ms": way.median,
            "normalised": 1 / one.speedup(COLLAGE, way.name) if way.ms else math.nan,
            "samples_per_s": 1e3 * one.batch / way.median,
        }
        for one in at_batches(campaign)
        for way in one.ways
    ]  # fmt: skip
    return pd.DataFrame(rows)


def judged(campaign: Campaign) -> list[Claim]:
    """Judge our numbers against the paper's claim."""
    found = at_batches(campaign)
    leads = {one.batch: lead(one) for one in found}
    each = ", ".join(
        f"{one.batch}: {leads[one.batch]:.3f}× {FRAMEWORKS[best_framework(one)]} (plan: "
        f"{one.chosen.removeprefix('alone: ')}; op level {one.speedup(OP_LEVEL, best_framework(one)):.2f}×)"
        for one in found
    )
    why = f"batch {each}. The plan is a single backend where cutting costs more than it gains: then it ties with it"
    return [EXPECTED["every batch"].judge(min(leads.values()), why=why)]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: the shipped campaign; full: measured here."""
    session = Session("collage/fig08", fast, out, seed)
    parts = [Part("contest", SWEPT, batch) for batch in (BATCHES[:2] if fast else BATCHES)]
    campaign = of_figure(fast, out, parts, progress)
    frame = session.table(throughput(campaign))
    with canvas(1, 1, width=6.6, height=3.1) as (figure, axes):
        ax = axes[0, 0]
        colours = {title: COLOURS[name] for name, title in FRAMEWORKS.items()}
        colours |= {OP_LEVEL: COLOURS[OP_LEVEL], COLLAGE: COLOURS[COLLAGE]}
        batches = [str(one.batch) for one in at_batches(campaign)]
        grouped(frame, ax, batches, colours, value="normalised", labels=batches)
        ax.axhline(1.0, color=COLOURS[COLLAGE], linewidth=0.8, linestyle=":")
        ax.set(ylabel="throughput over Collage's", xlabel="batch size", title=TITLES[SWEPT])
        signed(figure, ax, campaign, fast, columns=4)
        session.figure(figure)
    more = "the thesis does not name its batch sizes in the text; at batches above 1 Collage places on fewer backends"
    return session.finish(judged(campaign), [*notes(campaign, fast), more])


if __name__ == "__main__":
    main("collage/fig08")
