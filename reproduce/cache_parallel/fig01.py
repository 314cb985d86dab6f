"""Figure 4.1: what cache and tensor parallelism send per GPU, by the thesis' formulas and in ring terms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles.llm import decoder
from ...profiles.llm.parallel.layer import Parallel, Widths, collectives
from ...profiles.llm.parallel.split import table_entries
from ...profiles.llm.parallel.thesis import thesis_cp, thesis_differences, thesis_tp
from ..claims import Expectation, at_least, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLACK, BLUE, GREEN, ORANGE, VERMILLION, canvas, outside_legend, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL = "Llama-2-7b"
LARGER = (8192, 64)
"""Width and heads of a larger model with multi-head attention (LLaMA-65B)."""

DEVICES = (2, 4, 8, 16)
BATCHES = (32, 64, 128, 256, 512)
SAME = 0.01
"""Volumes closer than this count as equal: the statistics of the partial results are 0.4 %."""

EXPECTED = {
    "printed lower": Expectation(
        "CP sends less than TP at every N, by the printed formulas: largest CP/TP",
        "§4.4, Fig. 4.1", "much lower", at_most(0.75), "{:.3f}", kind="identity",
    ),
    "printed grows": Expectation(
        "the benefit grows with N, by the printed formulas: CP/TP at 2 GPUs over CP/TP at 16",
        "§4.4, Fig. 4.1", "increases", at_least(1 + SAME), "{:.2f}×", kind="identity",
    ),
    "all-gather": Expectation(
        "printed all-gather over the ring's, largest over N", "§4.4", "1", between(1, 1), "{:.3g}×", kind="identity",
    ),
    "all-to-all": Expectation(
        "printed all-to-all over what a GPU sends, largest over N (N/2: equal at 2 GPUs only)",
        "§4.4", "1", between(1, 1), "{:.3g}×", kind="identity",
    ),
    "all-reduces": Expectation(
        "printed all-reduces over what a GPU sends, largest over N (N: nowhere equal)",
        "§4.4", "1", between(1, 1), "{:.3g}×", kind="identity",
    ),
    "lower": Expectation(
        "CP sends less than TP at every N, both in ring terms: largest CP/TP",
        "§4.4, Fig. 4.1", "much lower", at_most(0.75, partly=1 - SAME), "{:.4f}",
    ),
    "grows": Expectation(
        "the benefit grows with N, both in ring terms: CP/TP at 2 GPUs over CP/TP at 16",
        "§4.4, Fig. 4.1", "increases", at_least(1 + SAME), "{:.4f}×",
    ),
    "mixed": Expectation(
        "CP as printed (a link's load in a one-way ring) against TP in ring terms (there the same): largest CP/TP",
        "§4.4, Fig. 4.1", "much lower", at_most(0.75), "{:.2f}", kind="identity",
    ),
    "batch": Expectation(
        "the benefit grows with the batch, in ring terms: TP − CP at 512 requests and 4 GPUs, less that at 32 (bytes)",
        "§4.4, Fig. 4.1", "increases", at_least(1), "{:,.0f}",
    ),
    "larger": Expectation(
        "the gap is larger with larger models, in ring terms: TP − CP at E = 8192, less that at 4096 (bytes, B = 512, "
        "4 GPUs)",
        "§4.4", "even larger", at_least(1), "{:,.0f}",
    ),
    "tables": Expectation(
        "CP has shorter block tables than TP: entries per GPU at 4 GPUs, 10K tokens, CP/TP",
        "§4.5.2", "less", at_most(0.5, partly=1 - SAME), "{:.3f}", kind="identity",
    ),
}  # fmt: skip


def volumes() -> Frame:
    """One row per number of GPUs and batch, Llama-7B's E = 4096 and H = 32, one byte per number.

    Returns
    -------
    DataFrame
        Columns devices, batch; cp_printed, tp_printed, cp_ring, tp_ring, cp_q_ring (only queries gathered): bytes that
        one GPU sends in one layer; cp_steps, tp_steps: messages that wait for one another; ratio_printed, ratio_ring,
        ratio_q_ring: CP over TP; ratio_mixed: CP as printed over TP in ring terms.
    """
    import pandas as pd

    model, widths = decoder(MODEL), Widths.uniform()
    rows = []
    for n in DEVICES:
        for batch in BATCHES:
            cp = collectives(model, batch, Parallel(cp=n), widths)
            only_q = collectives(model, batch, Parallel(cp=n, exchange="q"), widths)
            tp = collectives(model, batch, Parallel(tp=n), widths)
            sent = [sum(c.sent_bytes for c in found) for found in (cp, tp, only_q)]
            printed = thesis_cp(n, batch, model.hidden, model.heads), thesis_tp(n, batch, model.hidden)
            rows.append(
                {
                    "devices": n,
                    "batch": batch,
                    "cp_printed": printed[0],
                    "tp_printed": printed[1],
                    "cp_ring": sent[0],
                    "tp_ring": sent[1],
                    "cp_q_ring": sent[2],
                    "cp_steps": sum(c.steps for c in cp),
                    "tp_steps": sum(c.steps for c in tp),
                    "ratio_printed": printed[0] / printed[1],
                    "ratio_ring": sent[0] / sent[1],
                    "ratio_q_ring": sent[2] / sent[1],
                    "ratio_mixed": printed[0] / sent[1],
                }
            )
    return pd.DataFrame(rows)


def draw_volumes(frame: Frame, ax: Axes, batch: int) -> Axes:
    """MB per GPU and layer against the number of GPUs, at one batch."""
    part = frame[frame.batch == batch]
    for column, label, colour, style in (
        ("tp_printed", "TP, as printed", VERMILLION, "--"),
        ("tp_ring", "TP, ring", VERMILLION, "-"),
        ("cp_printed", "CP, as printed", BLUE, "--"),
        ("cp_ring", "CP, ring", BLUE, "-"),
        ("cp_q_ring", "CP gathering only queries, ring", GREEN, "-"),
    ):
        wide = 5.0 if column == "tp_ring" else 1.6  # CP's line lies on it
        ax.plot(part.devices, part[column] / 1e6, style, label=label, color=colour, marker="o", linewidth=wide)
    ax.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="sent per GPU and layer (MB)", title=f"batch of {batch}")
    plain_ticks(ax, "x", DEVICES)
    plain_ticks(ax, "y", (2, 5, 10, 20, 50, 100))
    return ax


def draw_ratios(frame: Frame, ax: Axes) -> Axes:
    """CP over TP against the number of GPUs; the batch cancels."""
    part = frame[frame.batch == BATCHES[0]]
    for column, label, colour, style in (
        ("ratio_printed", "both as printed", BLACK, "--"),
        ("ratio_ring", "both in ring terms", BLUE, "-"),
        ("ratio_q_ring", "only queries gathered", GREEN, "-"),
        ("ratio_mixed", "CP as printed, TP ring", ORANGE, ":"),
    ):
        ax.plot(part.devices, part[column], style, label=label, color=colour, marker="o")
        ax.annotate(
            f"{part[column].iloc[-1]:.2f}", (DEVICES[-1], part[column].iloc[-1]), xytext=(-4, 5),
            textcoords="offset points", ha="right", fontsize=7, color=colour,
        )  # fmt: skip
    ax.axhline(1.0, color=BLACK, linewidth=0.6, alpha=0.5)
    ax.set(xscale="log", xlabel="GPUs", ylabel="sent by CP / sent by TP", ylim=(0, 3), title="any batch")
    plain_ticks(ax, "x", DEVICES)
    ax.legend(loc="upper left", fontsize=7)
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; nothing in it is random, and fast is full."""
    session = Session("cache_parallel/fig01", fast, out, seed)
    frame = session.table(volumes())
    with canvas(1, 2, height=3.0) as (figure, axes):
        draw_volumes(frame, axes[0, 0], BATCHES[-1])
        draw_ratios(frame, axes[0, 1])
        outside_legend(figure, axes[0, 0], ncols=3)
        session.figure(figure)

    model = decoder(MODEL)
    one = frame[frame.batch == BATCHES[0]].set_index("devices")
    four = frame[frame.devices == 4].set_index("batch")
    gap = four.tp_ring - four.cp_ring
    terms = {n: {d.term: d for d in thesis_differences(n, 1, model.hidden, model.heads)} for n in DEVICES}
    factor = {t: max(terms[n][t].factor for n in DEVICES) for t in ("all-gather", "all-to-all", "all-reduces")}
    larger = {d.term: d.ring for d in thesis_differences(4, BATCHES[-1], *LARGER)}
    printed = {t: terms[4][t].reason for t in factor}
    contexts = [10_000] * 32
    tables = table_entries(contexts, 16, 4) / table_entries(contexts, 16)
    equal = "3 E + (E + 2 H) through CP, 4 E through TP, each times (N − 1) B / N"
    return session.finish(
        [
            EXPECTED["printed lower"].judge(one.ratio_printed.max()),
            EXPECTED["printed grows"].judge(one.ratio_printed[2] / one.ratio_printed[16]),
            *(EXPECTED[t].judge(factor[t], why=f"it is {printed[t]}") for t in factor),
            EXPECTED["lower"].judge(one.ratio_ring.max(), why=equal),
            EXPECTED["grows"].judge(
                one.ratio_ring[2] / one.ratio_ring[16],
                why="both grow as (N − 1) / N; the growth came from the all-reduces of all GPUs, counted for one",
            ),
            EXPECTED["mixed"].judge(
                one.ratio_mixed.max(), why="the printed all-to-all is N / 2 times what a GPU sends: 1.00 at 2 GPUs"
            ),
            EXPECTED["batch"].judge(gap[512] - gap[32], why="CP sends 2 H numbers more per request, so it loses"),
            EXPECTED["larger"].judge(
                (larger["TP"] - larger["CP"]) - gap[512],
                why="the gap is −2 H numbers per request, and larger models have more heads",
            ),
            EXPECTED["tables"].judge(tables),
        ],
        notes=[
            "ring terms: an all-gather and an all-to-all send (N − 1)/N of the buffer, an all-reduce 2 (N − 1)/N; one "
            "byte per number, as in the thesis; its batch sizes are read as 32 to 512 (§4.5)",
            "what can speak for CP: fewer messages in a row ("
            + ", ".join(
                f"{a} against {b} at {n} GPUs" for n, a, b in zip(one.index, one.cp_steps, one.tp_steps, strict=True)
            )
            + "), gathering only queries (CP/TP "
            + ", ".join(f"{v:.2f}" for v in one.ratio_q_ring)
            + "), grouped queries, no repeated KV heads, shorter block tables; against it: every GPU reads all weights",
            "Figs. 4.2–4.5 are measurements with evictions and stragglers: see there",
        ],
    )


if __name__ == "__main__":
    main("cache_parallel/fig01")
