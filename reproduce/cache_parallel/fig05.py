"""Figure 4.5: where a decode step's time goes under three parallelisms: kernels, communication, host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..claims import Expectation, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import BLUE, GREY, ORANGE, VERMILLION, canvas, outside_legend
from .decode_steps import ASSUMED, DEFAULT, LAYOUTS, MARGIN, Assumed, Regime, cells, equal, exponential, prefixes
from .fig02 import FASTER
from .fig04 import CHEAP_S
from .orderings import LENGTHS
from .shards import TABLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCH = 128
NAMES = {"tables": "block tables (host)", "moved": "KV moved over PCIe"}
PARTS = {"compute": BLUE, "communication": ORANGE, "tables": VERMILLION, "moved": GREY}

EXPECTED = {
    "marginal": Expectation(
        "kernels take about the same under all three: largest over smallest", "§4.5.4, Fig. 4.5", "marginal difference",
        at_most(1.1, partly=1.25), "{:.2f}×",
    ),
    "TP slowest": Expectation(
        "kernels are slowest under TP: smallest TP/CP", "§4.5.4", "slightly slower",
        between(1.0, 1.1, partly=(1 - MARGIN, 1.25), beyond="above"), "{:.3f}×",
    ),
    "communication": Expectation(
        "TP communicates longer than CP: smallest TP/CP", "§4.5.4", "longer", FASTER, "{:.2f}×"
    ),
    "tables": Expectation(
        "TP takes more host time for block tables than CP: smallest TP/CP", "§4.5.4", "more", FASTER, "{:.2f}×",
        kind="identity",
    ),
    "DP host": Expectation(
        "DP takes the most host time, evictions included: smallest DP/TP where memory runs out under DP", "§4.5.4",
        "longest", FASTER, "{:.2f}×",
    ),
    "DP host, all": Expectation(
        "DP takes the most host time at every length: smallest DP/TP", "§4.5.4", "longest", FASTER, "{:.2f}×"
    ),
}  # fmt: skip


def draw(frame: Frame, ax: Axes, tokens: int) -> Axes:
    """Stacked shares of a step's time."""
    part = frame[frame.tokens == tokens].set_index("system").loc[list(LAYOUTS)]
    low = part.step_ms * 0
    for name, colour in PARTS.items():
        ax.bar(list(LAYOUTS), part[f"{name}_ms"] / part.step_ms, bottom=low, color=colour, label=NAMES.get(name, name))
        low = low + part[f"{name}_ms"] / part.step_ms
    ax.set(title=f"{tokens // 1000}K tokens")
    return ax


def host_ratio(seed: int, assumed: Assumed = DEFAULT, regime: Regime = prefixes, *, short: bool = False) -> float:
    """DP's host time (tables, moves) over TP's, the least of all lengths; `short`: where memory runs out under DP."""
    frame = cells(regime, LENGTHS, (BATCH,), 5, seed, assumed)
    wide = frame.pivot_table(index="tokens", columns="system", values=["moved_ms", "tables_ms"])
    host = wide["tables_ms"] + wide["moved_ms"]
    found = host["DP"] / host["TP"]
    return float((found[wide["moved_ms"]["DP"] > 0] if short else found).min())


def kernels(seed: int, batch: int = BATCH, assumed: Assumed = DEFAULT) -> float:
    """TP's time in kernels over CP's, the least of all lengths."""
    frame = cells(prefixes, LENGTHS, (batch,), 5, seed, assumed).pivot_table(
        index="tokens", columns="system", values="compute_ms"
    )
    return float((frame["TP"] / frame["CP"]).min())


def sensitivity(seed: int) -> list[Sensitivity]:
    """DP's host time and TP's kernels, beside what nobody knows of them."""
    cheap, each = replace(DEFAULT, entry_s=CHEAP_S), replace(DEFAULT, each=True)
    dear = replace(DEFAULT, entry_s=TABLES[1])
    host = (
        Swing(f"host, {1e9 * DEFAULT.entry_s:g} ns an entry", f"{1e9 * CHEAP_S:g} ns", f"{1e9 * TABLES[1]:g} ns",
              host_ratio(seed, cheap), host_ratio(seed, dear)),
        Swing("maximum batch of all instances", "of each", "as it is", host_ratio(seed, each), host_ratio(seed)),
        Swing("lengths, half to one and a half", "all equal", "exponential",
              host_ratio(seed, regime=equal), host_ratio(seed, regime=exponential)),
    )  # fmt: skip
    times = (
        Swing(f"batch, {BATCH}", "32", "512", kernels(seed, 32), kernels(seed, 512)),
        Swing(f"attention's ramp, {DEFAULT.ramp_tokens:g} tokens", "0", "500",
              kernels(seed, assumed=replace(DEFAULT, ramp_tokens=0)),
              kernels(seed, assumed=replace(DEFAULT, ramp_tokens=500))),
    )  # fmt: skip
    slower = 1 / kernels(seed) - 1
    return [
        Sensitivity(
            "host time, DP/TP, the least", 1 + MARGIN, host_ratio(seed), "ratio of seconds", host,
            f"a maximum batch of each instance and lengths of an exponential law: "
            f"{host_ratio(seed, each, exponential):.2f}×",
        ),
        Sensitivity(
            "kernels, TP/CP, the least", 1.0, kernels(seed), "ratio of seconds", times,
            f"kernels of 8 heads that take {slower:.0%} longer than those of 32; a batch of 512, whose matrices "
            "compute as long as they read, comes near",
        ),
    ]  # fmt: skip


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure: means over draws of the lengths, fewer of them if fast."""
    session = Session("cache_parallel/fig05", fast, out, seed)
    frame = session.table(cells(prefixes, LENGTHS, (BATCH,), 5 if fast else 40, seed))
    with canvas(1, 4, width=2.4, height=2.8, sharey=True) as (figure, axes):
        for ax, tokens in zip(axes[0], LENGTHS, strict=True):
            draw(frame, ax, tokens)
        axes[0, 0].set_ylabel("share of the step")
        outside_legend(figure, axes[0, 0], ncols=4)
        session.figure(figure)
    wide = frame.pivot_table(index="tokens", columns="system", values=["compute_ms", "communication_ms", "tables_ms"])
    moved = frame.pivot_table(index="tokens", columns="system", values="moved_ms")
    host = wide["tables_ms"] + moved
    compute, sent, tables = wide["compute_ms"], wide["communication_ms"], wide["tables_ms"]
    short = moved["DP"] > 0
    each = replace(DEFAULT, each=True)
    cheap = host_ratio(seed, replace(DEFAULT, entry_s=CHEAP_S), short=True)
    return session.finish(
        [
            EXPECTED["marginal"].judge((compute.max(axis=1) / compute.min(axis=1)).max()),
            EXPECTED["TP slowest"].judge(
                (compute["TP"] / compute["CP"]).min(),
                why=f"a quarter of the weights is read: {kernels(seed, 32):.3f}× at a batch of 32, "
                f"{kernels(seed, 512):.3f}× at 512 (the figure's batch is not printed); kernels of 8 heads are taken "
                "to be as fast as of 32: python -m meshwright.reproduce.cache_parallel.shards --device cuda times them",
            ),
            EXPECTED["communication"].judge(
                (sent["TP"] / sent["CP"]).min(), why="as many bytes, fewer messages in a row under CP"
            ),
            EXPECTED["tables"].judge((tables["TP"] / tables["CP"]).min()),
            EXPECTED["DP host"].judge(
                (host["DP"] / host["TP"])[short].min(),
                why=f"TP fills whole block tables; {cheap:.2f}× by {1e9 * CHEAP_S:g} ns an entry, "
                f"{host_ratio(seed, each, short=True):.2f}× if the maximum batch is each instance's",
            ),
            EXPECTED["DP host, all"].judge(
                (host["DP"] / host["TP"]).min(),
                why="where all fits, each GPU fills the table of a quarter of the requests; "
                f"{host_ratio(seed, each):.2f}× if the maximum batch is each instance's, and "
                f"{host_ratio(seed, each, exponential):.2f}× with lengths of an exponential law, too",
            ),
        ],
        notes=list(ASSUMED),
        sensitivity=sensitivity(seed),
    )


if __name__ == "__main__":
    main("cache_parallel/fig05")
