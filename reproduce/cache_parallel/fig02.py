"""Figure 4.2: throughput of a decode step under three parallelisms over the prefix length, by arithmetic and a link."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..claims import Expectation, at_least
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLACK, BLUE, GREEN, GREY, VERMILLION, canvas, outside_legend
from .decode_steps import (
    ASSUMED,
    DEFAULT,
    MARGIN,
    Assumed,
    Regime,
    cells,
    draw_throughput,
    exponential,
    prefixes,
    thread_blocks,
)
from .orderings import BATCHES, LENGTHS, LONG, hinges, holding, orderings, stay_range, stays, sweep
from .shards import TABLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FASTER = at_least(1 + MARGIN, partly=1 - MARGIN)
"""A system is faster by more than the thesis' measurements scatter; within that neither is."""

EXPECTED = {
    "CP over TP": Expectation(
        "CP is faster than TP from 40K tokens on, whatever an entry of a block table costs the host in the range that "
        "was measured: smallest CP/TP",
        "§4.5.2, Figs. 4.2 and 4.3", "better", FASTER, "{:.3f}×",
    ),
    "TP over DP": Expectation(
        "DP is the slowest from 40K tokens on: smallest TP/DP", "§4.5.2", "slowest", FASTER, "{:.3f}×",
    ),
    "CP over DP": Expectation(
        "CP is faster than DP from 40K tokens on: smallest CP/DP", "§4.5.2", "better", FASTER, "{:.3f}×",
    ),
    "everywhere": Expectation(
        "the trend holds at every length: smallest CP/TP from 10K tokens on", "§4.5.2", "better", FASTER,
        "{:.3f}×",
    ),
}  # fmt: skip


DRAWN = {
    "CP over TP, all fits": (BLUE, "-", "CP/TP, 40K tokens, batch of 32"),
    "CP over TP": (BLUE, "--", "CP/TP, least from 40K on"),
    "TP over DP": (GREEN, "-", "TP/DP, least from 40K on"),
    "TP over CP at 10K": (VERMILLION, "-", "TP/CP, most at 10K"),
}


def draw_sweep(swept: Frame, ax: Axes) -> Axes:
    """Draw the orderings over the host time of an entry; what was measured for lists is shaded."""
    for name, (colour, dash, label) in DRAWN.items():
        part = swept[swept.ordering == name]
        ax.plot(part.entry_ns, part.ratio, dash, color=colour, label=label)
    ax.axhline(1 + MARGIN, color=BLACK, linewidth=0.8, linestyle=":", label=f"faster by {MARGIN:.0%}")
    ax.axvspan(1e9 * TABLES[0], 1e9 * TABLES[1], color=GREY, alpha=0.25, linewidth=0, label="measured for lists")
    ax.set(xscale="log", xlabel="host time of a block-table entry (ns)", ylabel="ratio of throughputs")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure: means over draws of the lengths, fewer of them if fast."""
    return over_lengths(Session("cache_parallel/fig02", fast, out, seed), prefixes, fast, seed)


def over_lengths(session: Session, regime: Regime, fast: bool, seed: int) -> Report:
    """Throughput over lengths of one regime, and the orderings of the three."""
    draws = 5 if fast else 40
    frame = session.table(cells(regime, LENGTHS, BATCHES, draws, seed))
    with canvas(1, 3, height=2.8, sharex=True) as (figure, axes):
        for ax, batch in zip(axes[0], BATCHES, strict=True):
            draw_throughput(frame, ax, batch)
        axes[0, 0].set_ylabel("tokens per second per layer")
        outside_legend(figure, axes[0, 0], ncols=3)
        session.figure(figure)
    swept = session.table(sweep(regime, draws, seed), "-host")
    with canvas(1, 1, width=5.4, height=3.0) as (figure, axes):
        draw_sweep(swept, axes[0, 0])
        outside_legend(figure, axes[0, 0], ncols=2)
        session.figure(figure, "-host")
    moves = session.table(stays(regime, draws, seed), "-moves")
    found = orderings(frame)
    inside = swept[(swept.ordering == "CP over TP") & swept.entry_ns.between(1e9 * TABLES[0], 1e9 * TABLES[1])]
    waits = moves.iloc[-1]
    flat = (
        "where not all keys and values fit, moving them in every step is nearly all of a step under both: "
        f"{waits['CP over TP']:.2f}× if those that do not fit wait, but then throughput does not fall with the batch; "
        f"CP leads and it falls where they move every {stay_range(moves)}"
    )
    return session.finish(
        [
            EXPECTED["CP over TP"].judge(float(inside.ratio.min()), why=flat),
            EXPECTED["TP over DP"].judge(found["TP over DP"], why=why_dp(regime, draws, seed, swept)),
            EXPECTED["CP over DP"].judge(
                found["CP over DP"],
                why="where not all fits, the fullest GPU of DP has little more to move than their mean: 128 requests "
                f"even out; {_ratio('CP over DP', exponential, draws, seed):.2f}× with lengths of an exponential law",
            ),
            EXPECTED["everywhere"].judge(found["everywhere"], why=flat),
        ],
        notes=[
            *ASSUMED,
            "host times of an entry at which each ordering holds by the margin: "
            + "; ".join(f"{label}: {holding(swept, name)}" for name, (_, _, label) in DRAWN.items()),
        ],
        sensitivity=hinges(regime, draws, seed, swept, moves),
    )


def _ratio(name: str, regime: Regime, draws: int, seed: int, assumed: Assumed = DEFAULT) -> float:
    return orderings(cells(regime, LENGTHS, BATCHES, draws, seed, assumed))[name]


def why_dp(regime: Regime, draws: int, seed: int, swept: Frame) -> str:
    """Why TP does not lead DP: each cause with the ratio that changing it gives."""
    each = _ratio("TP over DP", regime, draws, seed, replace(DEFAULT, each=True))
    wide = _ratio("TP over DP", exponential, draws, seed)
    even = [LONG] * BATCHES[0]
    return (
        "where all fits, TP fills the whole block table on each GPU, DP a quarter of it: it holds by the margin "
        f"{holding(swept, 'TP over DP')} an entry; {wide:.2f}× with lengths of an exponential law, {each:.2f}× if the "
        "maximum batch is each instance's; not the filling of a GPU: both start "
        f"{thread_blocks('TP', even):,} thread blocks for {BATCHES[0]} requests of {LONG // 1000}K tokens "
        f"(DP {thread_blocks('DP', even):,})"
    )


if __name__ == "__main__":
    main("cache_parallel/fig02")
