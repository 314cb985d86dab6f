"""Figure 15 (AlpaServe; thesis 4.15): dynamic batching: what it adds to AlpaServe, and to Clockwork++."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ... import traces
from ...profiles import model_set
from ...simulator import simulate
from ..claims import Expectation, at_least, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREEN, canvas, plain_ticks
from .experiments.systems import placement

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEVICES = 16
"""The paper does not print the number. The authors' script of this figure (alpa-projects/mms, experiments/batching)
serves 16 models of this size, 4 requests/s each, on 8 devices: two models for a device."""
ROOMY = 32
"""As many devices as models, as in another suite of theirs; tried, too."""
RATE_PER_MODEL, CV = 4.0, 4.0
"""§6.5: 4 requests/s and CV 4 for each model."""
SCALES = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
BATCHES = (1, 2, 4, 8, 16)
WINDOW_S = 60.0  # of Clockwork++, as on MAF1 (§6.2); the paper gives none for this figure

EXPECTED = {
    "tight": Expectation(
        "a tight SLO (scale up to 2) leaves no gain from batching (largest gain of any batch size)",
        "§6.5, Fig. 15 left",
        "0",
        at_most(0.5, partly=1.5),
        "{:+.2f} points",
    ),
    "limited": Expectation(
        "the gain is limited everywhere (largest gain of AlpaServe over all SLOs)",
        "§6.5, Fig. 15",
        "limited",
        at_most(5.0, partly=10.0),
        "{:+.2f} points",
    ),
    "two": Expectation(
        "batches beyond 2 add nothing (largest gain over max batch 2)",
        "§6.5, Fig. 15 left",
        "0",
        at_most(0.5, partly=1.5),
        "{:+.2f} points",
    ),
    "loose": Expectation(
        "with a loose SLO both systems gain to some extent (smaller of the two largest gains)",
        "§6.5, Fig. 15 right",
        "> 0",
        at_least(0.05, partly=0.0),
        "{:+.2f} points",
    ),
    "clockwork": Expectation(
        "Clockwork++ improves slightly more (its largest gain less AlpaServe's)",
        "§6.5, Fig. 15 right",
        "slightly > 0",
        between(0.0, 2.0, partly=(-0.5, 5.0), beyond="above"),
        "{:+.2f} points",
    ),
}


def attainments(
    scales: Sequence[float], batches: Sequence[int], duration: float, seed: int, progress: Progress = quiet,
    devices: int = DEVICES,
) -> Frame:  # fmt: skip
    """Both systems under every SLO and largest batch; placements are searched without batching, as in the paper.

    Returns
    -------
    DataFrame
        Columns slo_scale, system, max_batch (1: batching off; 0: off, but requests wait in queues of their models, as
        with batching, one at a time), attainment.
    """
    import pandas as pd

    profiles = model_set("S1")
    bare = traces.gamma(RATE_PER_MODEL * len(profiles), CV, duration, list(profiles), seed=seed)
    rows = []
    for i, scale in enumerate(scales):
        progress(i, len(scales), f"SLO scale {scale:g}")
        trace = bare.with_slo_scale(scale, profiles)
        for system in ("AlpaServe", "Clockwork++"):
            placed = placement(system, devices, trace, profiles, window_s=WINDOW_S)
            for batch in (0, *batches):
                result = simulate(placed, trace, profiles, batching=None if batch == 1 else batch or 1)
                row = {"slo_scale": scale, "system": system, "max_batch": batch}
                rows.append(row | {"attainment": result.attainment})
    progress(len(scales), len(scales), "")
    return pd.DataFrame(rows)


def draw_batches(frame: Frame, ax: Axes) -> Axes:
    """Draw the left panel: AlpaServe with every largest batch."""
    from matplotlib import colormaps

    mine = frame[(frame.system == "AlpaServe") & (frame.max_batch > 0)]
    sizes = sorted(mine.max_batch.unique())
    for i, batch in enumerate(sizes):
        part = mine[mine.max_batch == batch]
        ax.plot(
            part.slo_scale, 100 * part.attainment, color=colormaps["viridis"](0.85 * i / max(len(sizes) - 1, 1)),
            marker="o", label="no batching" if batch == 1 else f"mb={batch}",
        )  # fmt: skip
    return _dress(ax, "a: AlpaServe")


def draw_systems(frame: Frame, ax: Axes) -> Axes:
    """Draw the right panel: both systems, without batching and with batches of two."""
    for system, colour in (("AlpaServe", BLUE), ("Clockwork++", GREEN)):
        for batch, dash in ((1, "--"), (2, "-")):
            part = frame[(frame.system == system) & (frame.max_batch == batch)]
            label = f"{system}, {'no batching' if batch == 1 else f'mb={batch}'}"
            ax.plot(part.slo_scale, 100 * part.attainment, color=colour, linestyle=dash, marker="o", label=label)
    return _dress(ax, "b: with Clockwork++")


def _dress(ax: Axes, title: str) -> Axes:
    ax.set(xscale="log", xlabel="SLO scale (× latency on one device)", ylabel="SLO attainment (%)", title=title)
    plain_ticks(ax, "x", (1, 1.5, 2, 3, 5, 7, 10))
    ax.legend(loc="lower left", bbox_to_anchor=(1.0, 0.0))
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: 600 s of traffic (77,000 requests); fast: 60 s."""
    session = Session("alpaserve/fig15", fast, out, seed)
    scales, duration = SCALES[:: 2 if fast else 1], 60.0 if fast else 600.0
    frame = session.table(attainments(scales, BATCHES, duration, seed, progress))
    roomy = attainments(scales, (1, 2), duration, seed, devices=ROOMY)
    with canvas(1, 2, width=4.8, height=2.9) as (figure, axes):
        draw_batches(frame, axes[0, 0])
        draw_systems(frame, axes[0, 1])
        session.figure(figure)

    gain = gains(frame)
    ours, theirs = gain.loc["AlpaServe"], gain.loc["Clockwork++"]
    queue = ours[0].loc[:2.0]
    beyond = ours.sub(ours[2], axis=0)[[4, 8, 16]]
    apart = gains(roomy)
    why = (
        "tested: batches of one alone, which only let a request wait in its model's queue for the first idle group, "
        f"gain up to {queue.max():+.2f} points at tight SLOs; with {ROOMY} devices the largest gains are "
        f"{apart.loc['Clockwork++'][2].max():+.2f} (Clockwork++) and {apart.loc['AlpaServe'][2].max():+.2f} points: "
        "nearly all is attained without batching where SLOs are loose"
    )
    return session.finish(
        [
            EXPECTED["tight"].judge(ours.loc[:2.0, list(BATCHES)].max().max(), why=why),
            EXPECTED["limited"].judge(ours[list(BATCHES)].max().max(), why=why),
            EXPECTED["two"].judge(
                beyond.max().max(),
                why=f"at SLO scale {beyond.max(axis=1).idxmax():g}; up to scale 5 it is "
                f"{beyond.loc[:5.0].max().max():+.2f} points. {why}",
            ),
            EXPECTED["loose"].judge(min(ours[2].max(), theirs[2].max()), why=why),
            EXPECTED["clockwork"].judge(
                lead(gain), shown=f"{theirs[2].max():+.2f} against {ours[2].max():+.2f} points", why=why
            ),
        ],
        notes=[
            f"{DEVICES} devices; batch latencies: two queries of 2,048 tokens cost 1.92 times one (measured by the "
            "authors), so batching can raise the peak rate by 4 % at most",
            f"batching costs AlpaServe up to {-ours.min().min():.1f} points, at SLO scale "
            f"{ours.min(axis=1).idxmin():g}: a batch keeps every stage busy twice as long, what waits is late",
            why,
        ],
    )


def gains(frame: Frame) -> Frame:
    """Percentage points over no batching, rows system and slo_scale, columns as `max_batch` has them."""
    points = 100 * frame.pivot(index=["system", "slo_scale"], columns="max_batch", values="attainment")
    return points.sub(points[1], axis=0)


def lead(gain: Frame) -> float:
    """Clockwork++'s largest gain by batches of two, less AlpaServe's."""
    return float(gain.loc["Clockwork++"][2].max() - gain.loc["AlpaServe"][2].max())


if __name__ == "__main__":
    main("alpaserve/fig15")
