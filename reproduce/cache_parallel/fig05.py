"""Figure 4.5: where a decode step's time goes under three parallelisms: kernels, communication, host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..claims import Expectation, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREY, ORANGE, VERMILLION, canvas, outside_legend
from .decode_steps import ASSUMED, DEFAULT, LAYOUTS, MARGIN, cells, prefixes
from .fig02 import FASTER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTHS = (10_000, 20_000, 40_000, 80_000)
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


CHEAP_S = 1e-9
"""Host time of an entry of a block table if tables were arrays and not lists, rounded up."""


def _host_ratio(seed: int) -> float:
    """DP's host time over TP's where memory runs out under DP, with entries that are cheap."""
    frame = cells(prefixes, LENGTHS, (BATCH,), 5, seed, replace(DEFAULT, entry_s=CHEAP_S))
    moved = frame.pivot_table(index="tokens", columns="system", values="moved_ms")
    host = moved + frame.pivot_table(index="tokens", columns="system", values="tables_ms")
    return float((host["DP"] / host["TP"])[moved["DP"] > 0].min())


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
    cheap = f"by {1e9 * CHEAP_S:g} ns an entry it is {_host_ratio(seed):.2f}× where memory runs out"
    return session.finish(
        [
            EXPECTED["marginal"].judge((compute.max(axis=1) / compute.min(axis=1)).max()),
            EXPECTED["TP slowest"].judge(
                (compute["TP"] / compute["CP"]).min(),
                why="a quarter of the weights is read; how kernels of few heads fill a GPU is not modelled: "
                "python -m meshwright.reproduce.cache_parallel.shards --device cuda times them",
            ),
            EXPECTED["communication"].judge(
                (sent["TP"] / sent["CP"]).min(), why="as many bytes, fewer messages in a row under CP"
            ),
            EXPECTED["tables"].judge((tables["TP"] / tables["CP"]).min()),
            EXPECTED["DP host"].judge(
                (host["DP"] / host["TP"])[short].min(),
                why=f"TP fills whole block tables; {cheap}",
            ),
            EXPECTED["DP host, all"].judge(
                (host["DP"] / host["TP"]).min(),
                why=f"where all fits, each GPU fills the table of a quarter of the requests; {cheap}",
            ),
        ],
        notes=list(ASSUMED),
    )


if __name__ == "__main__":
    main("cache_parallel/fig05")
