"""Figure 4.4: latency against throughput of a decode step, batches of 32 to 512, at four prefix lengths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..claims import Expectation, at_least, at_most
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import canvas, outside_legend
from .decode_steps import (
    ASSUMED,
    BATCHES,
    COLOURS,
    DEFAULT,
    MARGIN,
    Assumed,
    Regime,
    cells,
    exponential,
    prefixes,
    ratios,
    step,
)  # fmt: skip
from .fig02 import FASTER
from .orderings import LENGTHS, falls
from .shards import ramp_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXPECTED = {
    "DP worst": Expectation(
        "DP is strictly worse than CP at every length and batch: smallest CP/DP", "§4.5.3, Fig. 4.4", "strictly worse",
        FASTER, "{:.3f}×",
    ),
    "DP worse than TP": Expectation(
        "DP is strictly worse than TP at every length and batch: smallest TP/DP", "§4.5.3, Fig. 4.4", "strictly worse",
        FASTER, "{:.3f}×",
    ),
    "short": Expectation(
        "TP can be better than CP at 10K tokens: largest TP/CP", "§4.5.3", "better", FASTER, "{:.3f}×"
    ),
    "kernels": Expectation(
        "CP loses at 10K tokens by attention's kernels, whose shards are short: largest CP/TP in their time",
        "§4.5.3", "lower utilization", FASTER, "{:.3f}×",
    ),
    "mostly": Expectation(
        f"CP is mostly better than TP beyond 10K tokens: share of points at which it is more than {MARGIN:.0%} faster",
        "§4.5.3", "mostly strictly better", at_least(0.8, partly=0.5), "{:.0%}",
    ),
    "degrades": Expectation(
        "beyond 10K tokens throughput falls after some batch, in memory pressure: CP at 512 over its best, largest",
        "§4.5.3", "degrades", at_most(1 - MARGIN), "{:.2f}×",
    ),
}  # fmt: skip


def draw(frame: Frame, ax: Axes, tokens: int) -> Axes:
    """Step time against throughput; a line joins the batches from 32 to 512."""
    for kind, colour in COLOURS.items():
        mine = frame[(frame.tokens == tokens) & (frame.system == kind)].sort_values("batch")
        ax.plot(mine.step_ms, mine.throughput, label=kind, color=colour, marker="o")
    part = frame[frame.tokens == tokens]
    flat = part.throughput.max() < 3 * part.throughput.min()  # nothing is evicted
    ax.set(xscale="linear" if flat else "log", yscale="linear" if flat else "log")
    ax.set(xlabel="step (ms)", title=f"{tokens // 1000}K tokens")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure: means over draws of the lengths, fewer of them if fast."""
    session = Session("cache_parallel/fig04", fast, out, seed)
    frame = session.table(cells(prefixes, LENGTHS, BATCHES, 5 if fast else 40, seed))
    with canvas(1, 4, width=2.8, height=2.8) as (figure, axes):
        for ax, tokens in zip(axes[0], LENGTHS, strict=True):
            draw(frame, ax, tokens)
        axes[0, 0].set_ylabel("tokens per second per layer")
        outside_legend(figure, axes[0, 0], ncols=3)
        session.figure(figure)
    cp_tp, cp_dp, tp_dp = (ratios(frame, a, b) for a, b in (("CP", "TP"), ("CP", "DP"), ("TP", "DP")))
    found = sensitivity(seed)
    stays = {n: points(replace(DEFAULT, stay_steps=n), seed) for n in (10, 100)}
    return session.finish(
        [
            EXPECTED["DP worst"].judge(
                cp_dp.to_numpy().min(),
                why="least where all just fits: both fill a quarter of the tables, and the straggler of 32 requests on "
                f"each GPU is small; {least('CP', DEFAULT, exponential, seed):.2f}× with lengths of an exponential law",
            ),
            EXPECTED["DP worse than TP"].judge(
                tp_dp.to_numpy().min(),
                why="where all fits, each GPU has a quarter of the block table under DP, all of it under TP: "
                f"{least('TP', replace(DEFAULT, entry_s=CHEAP_S), prefixes, seed):.2f}× by 1 ns an entry, "
                f"{least('TP', replace(DEFAULT, entry_s=CHEAP_S), exponential, seed):.2f}× with lengths of an "
                f"exponential law, too; {least('TP', replace(DEFAULT, each=True), prefixes, seed):.2f}× if the maximum "
                "batch is each instance's",
            ),
            EXPECTED["short"].judge(1 / cp_tp.loc[LENGTHS[0]].min(), why=f"it needs {found.needed}"),
            EXPECTED["kernels"].needs_gpu(KERNELS),
            EXPECTED["mostly"].judge(
                float((cp_tp.loc[LENGTHS[1] :].to_numpy() > 1 + MARGIN).mean()),
                why="where not all fits, moving keys and values in every step is nearly all of a step under both: "
                + ", ".join(f"{share:.0%} if they move every {n} steps" for n, share in stays.items()),
            ),
            EXPECTED["degrades"].judge(falls(frame)),
        ],
        notes=[
            *ASSUMED,
            "the thesis explains TP's lead at 10K tokens by kernels of short shards: "
            f"{kernels_ratio(DEFAULT):.3f}× in attention's time by the ramp that a CPU shows, "
            f"{kernels_ratio(replace(DEFAULT, ramp_tokens=500)):.3f}× by one of 500 tokens; {MARGIN:.0%} asks for "
            f"{ramp_for(LENGTHS[0], 1 + MARGIN):.0f}",
        ],
        sensitivity=[found],
    )


KERNELS = "python -m meshwright.reproduce.cache_parallel.shards --device cuda"
HOST_S = (0.1e-9, 94e-9)
RAMPS = (0.0, 500.0)


CHEAP_S = 1e-9
"""Host time of an entry of a block table if tables were arrays and not lists, rounded up."""


def least(system: str, assumed: Assumed, regime: Regime, seed: int) -> float:
    """The least throughput of a system over DP's, of all lengths and batches."""
    return float(ratios(cells(regime, LENGTHS, BATCHES, 3, seed, assumed), system, "DP").to_numpy().min())


def points(assumed: Assumed, seed: int) -> float:
    """Share of the points beyond 10K tokens at which CP is faster than TP by the margin."""
    found = ratios(cells(prefixes, LENGTHS[1:], BATCHES, 3, seed, assumed), "CP", "TP")
    return float((found.to_numpy() > 1 + MARGIN).mean())


def lead(assumed: Assumed, seed: int) -> float:
    """TP over CP at 10K tokens, the most of all batches."""
    return float(1 / ratios(cells(prefixes, LENGTHS[:1], BATCHES, 3, seed, assumed), "CP", "TP").to_numpy().min())


def kernels_ratio(assumed: Assumed) -> float:
    """CP over TP in the time of attention's kernels at 10K tokens."""
    lengths = [LENGTHS[0]] * BATCHES[0]
    return step("CP", lengths, assumed).attention_s / step("TP", lengths, assumed).attention_s


def sensitivity(seed: int) -> Sensitivity:
    """TP's lead at 10K tokens, beside the host's time and the ramp of attention's kernels."""
    swings = (
        Swing(f"host, {1e9 * DEFAULT.entry_s:g} ns an entry", "0.1 ns", "94 ns",
              *(lead(replace(DEFAULT, entry_s=s), seed) for s in HOST_S)),
        Swing(f"attention's ramp, {DEFAULT.ramp_tokens:g} tokens", "0", "500",
              *(lead(replace(DEFAULT, ramp_tokens=r), seed) for r in RAMPS)),
    )  # fmt: skip
    held = [ns for ns in range(1, 95) if lead(replace(DEFAULT, entry_s=1e-9 * ns), seed) >= 1 + MARGIN]
    ramps = [r for r in range(100, 5001, 100) if lead(replace(DEFAULT, ramp_tokens=r), seed) >= 1 + MARGIN]
    by_ramp = f"a ramp of {ramps[0]} tokens" if ramps else "none of the ramps up to 5,000 tokens gives it"
    needed = (
        f"at most {max(held, default=0)} ns an entry of a block table; or, at {1e9 * DEFAULT.entry_s:g} ns, {by_ramp}"
    )
    return Sensitivity(
        "TP/CP at 10K tokens, the most", 1 + MARGIN, lead(DEFAULT, seed), "ratio of throughputs", swings, needed
    )


if __name__ == "__main__":
    main("cache_parallel/fig04")
