"""Figure 4.2: throughput of a decode step under three parallelisms over the prefix length, by arithmetic and a link."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..claims import Expectation, at_least
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import BLACK, BLUE, GREEN, GREY, VERMILLION, canvas, outside_legend
from .decode_steps import ASSUMED, DEFAULT, MARGIN, Assumed, Regime, cells, draw_throughput, prefixes, ratios
from .shards import TABLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTHS = (10_000, 20_000, 40_000, 80_000)
BATCHES = (32, 128, 512)
LONG = 40_000
"""Mean tokens from which contexts count as long."""
HOST_S = tuple(1e-9 * ns for ns in (0.1, 1, 2, 4, 6, 8, 10, 12, 15, 20, 30, 37, 50, 75, 94))
"""Host times of an entry of a block table that are swept; `TABLES` are its ends that were measured for lists."""

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


def orderings(frame: Frame) -> dict[str, float]:
    """The least ratios of throughput that the claims are about, and the largest TP/CP at 10K tokens."""
    cp_tp, tp_dp, cp_dp = (ratios(frame, a, b) for a, b in (("CP", "TP"), ("TP", "DP"), ("CP", "DP")))
    return {
        "CP over TP": float(cp_tp.loc[LONG:].to_numpy().min()),
        "CP over TP, all fits": float(cp_tp.loc[LONG, BATCHES[0]]),
        "TP over DP": float(tp_dp.loc[LONG:].to_numpy().min()),
        "CP over DP": float(cp_dp.loc[LONG:].to_numpy().min()),
        "everywhere": float(cp_tp.to_numpy().min()),
        "TP over CP at 10K": float(1 / cp_tp.loc[LENGTHS[0]].min()),
    }


def sweep(regime: Regime, draws: int, seed: int) -> Frame:
    """The orderings over the host time of an entry: columns entry_ns, ordering, ratio."""
    import pandas as pd

    rows = []
    for entry_s in HOST_S:
        found = orderings(cells(regime, LENGTHS, BATCHES, draws, seed, replace(DEFAULT, entry_s=entry_s)))
        rows += [{"entry_ns": 1e9 * entry_s, "ordering": name, "ratio": ratio} for name, ratio in found.items()]
    return pd.DataFrame(rows)


def holding(swept: Frame, ordering: str) -> str:
    """At which of the host times that were swept an ordering holds by the margin, in words."""
    part = swept[swept.ordering == ordering]
    held = part.entry_ns[part.ratio >= 1 + MARGIN]
    if not len(held):
        return f"at none (at most {part.ratio.max():.3f}×)"
    return f"from {held.min():g} to {held.max():g} ns"


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
    found = orderings(frame)
    inside = swept[(swept.ordering == "CP over TP") & swept.entry_ns.between(1e9 * TABLES[0], 1e9 * TABLES[1])]
    return session.finish(
        [
            EXPECTED["CP over TP"].judge(
                float(inside.ratio.min()),
                why="where not all keys and values fit (batch of 512), moving them is nearly all of a step under both; "
                f"with requests waiting instead it is {_least(regime, draws, seed, 'CP over TP', WAITING):.2f}×",
            ),
            EXPECTED["TP over DP"].judge(
                found["TP over DP"],
                why="where all fits, TP fills the whole block table on each GPU, DP a quarter of it; it holds by the "
                f"margin {holding(swept, 'TP over DP')} an entry",
            ),
            EXPECTED["CP over DP"].judge(
                found["CP over DP"], why="where nothing fits, moving keys and values is nearly all of a step under both"
            ),
            EXPECTED["everywhere"].judge(
                found["everywhere"], why="where nothing fits, moving keys and values is nearly all of a step under both"
            ),
        ],
        notes=[
            *ASSUMED,
            "host times of an entry at which each ordering holds by the margin: "
            + "; ".join(f"{label}: {holding(swept, name)}" for name, (_, _, label) in DRAWN.items()),
        ],
        sensitivity=sensitivity(regime, draws, seed, swept),
    )


WAITING = replace(DEFAULT, waiting=True)


def _least(regime: Regime, draws: int, seed: int, ordering: str, assumed: Assumed) -> float:
    return orderings(cells(regime, LENGTHS, BATCHES, draws, seed, assumed))[ordering]


def sensitivity(regime: Regime, draws: int, seed: int, swept: Frame) -> list[Sensitivity]:
    """Both headlines beside what moves them: host time, ramp of attention's kernels, what happens to what does not
    fit."""
    found: list[Sensitivity] = []
    for name, title in (("CP over TP", "CP/TP, least from 40K tokens on"), ("TP over DP", "TP/DP, least from 40K on")):
        at = partial(_least, regime, draws, seed, name)
        swings = (
            Swing(
                f"host, {1e9 * DEFAULT.entry_s:g} ns an entry", "10 ns", f"{1e9 * TABLES[1]:g} ns",
                at(replace(DEFAULT, entry_s=10e-9)), at(replace(DEFAULT, entry_s=TABLES[1])),
            ),
            Swing(
                f"attention's ramp, {DEFAULT.ramp_tokens:g} tokens", "0", "500",
                at(replace(DEFAULT, ramp_tokens=0)), at(replace(DEFAULT, ramp_tokens=500)),
            ),
            Swing("what does not fit is moved", "half as fast", "waits",
                  at(replace(DEFAULT, pcie_bytes_per_s=DEFAULT.pcie_bytes_per_s / 2)), at(WAITING)),
        )  # fmt: skip
        needed = (
            f"an entry of a block table {holding(swept, name)}; or, with requests that wait, {swings[2].at_high:.2f}×"
        )
        found.append(Sensitivity(title, 1 + MARGIN, at(DEFAULT), "ratio of throughputs", swings, needed))
    return found


if __name__ == "__main__":
    main("cache_parallel/fig02")
