"""Figure 4.2: throughput of a decode step under three parallelisms over the prefix length, by arithmetic and a link."""

from __future__ import annotations

from pathlib import Path

from ..claims import Expectation, at_least
from ..figures import main
from ..report import Progress, Report, Session, quiet
from ..style import canvas, outside_legend
from .decode_steps import ASSUMED, MARGIN, Regime, break_even, cells, draw_throughput, prefixes, ratios

LENGTHS = (10_000, 20_000, 40_000, 80_000)
BATCHES = (32, 128, 512)
LONG = 40_000
"""Mean tokens from which contexts count as long."""

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


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure: means over draws of the lengths, fewer of them if fast."""
    return over_lengths(Session("cache_parallel/fig02", fast, out, seed), prefixes, fast, seed)


def over_lengths(session: Session, regime: Regime, fast: bool, seed: int) -> Report:
    """Throughput over lengths of one regime, and the orderings of the three."""
    frame = session.table(cells(regime, LENGTHS, BATCHES, 5 if fast else 40, seed))
    with canvas(1, 3, height=2.8, sharex=True) as (figure, axes):
        for ax, batch in zip(axes[0], BATCHES, strict=True):
            draw_throughput(frame, ax, batch)
        axes[0, 0].set_ylabel("tokens per second per layer")
        outside_legend(figure, axes[0, 0], ncols=3)
        session.figure(figure)
    cp_tp, tp_dp, cp_dp = (ratios(frame, a, b) for a, b in (("CP", "TP"), ("TP", "DP"), ("CP", "DP")))
    even = {b: break_even(LONG, b, seed) for b in BATCHES}
    return session.finish(
        [
            EXPECTED["CP over TP"].judge(cp_tp.loc[LONG:].to_numpy().min()),
            EXPECTED["TP over DP"].judge(tp_dp.loc[LONG:].to_numpy().min()),
            EXPECTED["CP over DP"].judge(cp_dp.loc[LONG:].to_numpy().min()),
            EXPECTED["everywhere"].judge(
                cp_tp.to_numpy().min(), why="every GPU reads all the weights under CP, a quarter under TP"
            ),
        ],
        notes=[
            *ASSUMED,
            f"CP beats TP by its shorter block tables alone; at {LONG} tokens from a host time per entry of "
            + ", ".join(f"{1e9 * s:.2g} ns at batch {b}" for b, s in even.items())
            + ": below it TP is faster",
        ],
    )


if __name__ == "__main__":
    main("cache_parallel/fig02")
