"""Figure 3 (TeraPipe; thesis 2.3): forward time and throughput of one layer of GPT3-1B on a V100, by tokens."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...planners.terapipe.v100.cell import CALIBRATED, FLAT_TOKENS, V100, V100Cell, V100Layout
from ..claims import Claim, Expectation, at_least, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import BLUE, GREY, canvas

LAYER = V100Layout(layers=8, hidden=2048, data=1, pipe=8, op=1)
"""Stages of one layer each, as wide as GPT3-1B's, on one GPU."""

EXPECTED = {
    "flat": Expectation(
        "a sequence of one token takes as long as one of 256: the latter's time over the former's (given: this is "
        "what our launches are taken from)", "§2.3.2, Fig. 3", "1", between(0.95, 1.05, partly=(0.9, 1.2)), "{:.2f}",
        kind="given",
    ),
    "throughput": Expectation(
        "a large subsequence is needed for high throughput: tokens per second of 256 over those of 32", "§2.3.2",
        "8", between(7, 9), "{:.1f}×", kind="given",
    ),
    "longer": Expectation(
        "throughput is better for longer sequences: tokens per second of 2048 over those of 256", "§2.3.2", "above 1",
        at_least(1, partly=0.8), "{:.2f}×",
    ),
    "context": Expectation(
        "later tokens cost more: 256 tokens after 1792 others over 256 tokens without context", "§2.3.2", "above 1",
        at_least(1.02), "{:.2f}×",
    ),
}  # fmt: skip


def curve() -> Frame:
    """Seconds of the layer's forward pass."""
    import pandas as pd

    # Powers of two, and steps of 32 between them, so that the bend at 256 tokens shows.
    tokens = np.unique(np.concatenate([2 ** np.arange(12), np.arange(32, 2049, 32)]))
    seconds = np.array([V100Cell(LAYER, int(n)).layer(n)[0] for n in tokens])
    return pd.DataFrame({"tokens": tokens, "milliseconds": seconds * 1e3, "tokens_per_ms": tokens / seconds / 1e3})


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    at = frame.set_index("tokens")
    ms, rate = at.milliseconds, at.tokens_per_ms
    cell = V100Cell(LAYER, 2048)
    in_tiles, fused = longer(tile=TILES[0]), longer(tile=TILES[0], score_bytes=FUSED)
    late = float(cell.layer(256, 1792)[0] / cell.layer(256)[0])
    return [
        EXPECTED["flat"].judge(float(ms[FLAT_TOKENS] / ms[1])),
        EXPECTED["throughput"].judge(float(rate[256] / rate[32])),
        EXPECTED["longer"].judge(
            float(rate[2048] / rate[256]),
            why="products are as fast for 256 tokens as for 2048 here, and attention reads and writes all scores many "
            f"times. In tiles of {TILES[0][0]} by {TILES[0][1]} on {MULTIPROCESSORS} multiprocessors, of which 256 "
            f"tokens fill half: {in_tiles:.2f}×; with a fused softmax, too: {fused:.2f}×",
        ),
        EXPECTED["context"].judge(late),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast and full are the same. Nothing in it is random."""
    session = Session("terapipe/fig03", fast, out, seed)
    frame = session.table(curve())
    with canvas(2, 1, width=4.2, height=1.7, sharex=True) as (figure, axes):
        top, bottom = axes[:, 0]
        top.plot(frame.tokens, frame.milliseconds, color=BLUE)
        bottom.plot(frame.tokens, frame.tokens_per_ms, color=BLUE)
        for ax in (top, bottom):
            ax.axvline(FLAT_TOKENS, color=GREY, linestyle="--", linewidth=0.8)
            ax.set_ylim(bottom=0)
        top.set(ylabel="milliseconds", title="forward pass of a layer of GPT3-1B")
        bottom.set(ylabel="tokens per ms", xlabel="tokens", xlim=(0, 2048))
        session.figure(figure)
    return session.finish(judged(frame), notes=NOTES, sensitivity=[sensitivity()])


MULTIPROCESSORS = 80
"""Of a V100 (data sheet)."""
TILES = ((128, 128), (128, 64), (256, 128))
"""Rows and columns of results that a thread block of cuBLAS' half-precision products makes: usual sizes, not known for
these; the first is what is looked at alone."""
FUSED = 8.0
"""Forward bytes of a score where mask and softmax are one kernel: written, read and written, read, two bytes each."""
OUTPUTS = (3, 1, 4, 4)
"""Shares of a layer's twelve: queries, keys and values; output; and both products of the feed-forward network."""


def waves(tokens: int, tile: tuple[int, int], hidden: int = LAYER.hidden) -> float:
    """How many times as long a layer's products take as if their tiles filled all multiprocessors in every wave."""
    parts = [math.ceil(tokens / tile[0]) * math.ceil(hidden * columns / tile[1]) for columns in (3, 1, 4, 1)]
    shares = OUTPUTS  # of the layer's 12 hidden squared multiplications
    slower = [math.ceil(n / MULTIPROCESSORS) * MULTIPROCESSORS / n for n in parts]
    return sum(share * s for share, s in zip(shares, slower, strict=True)) / sum(shares)


def longer(hidden: int = LAYER.hidden, tile: tuple[int, int] | None = None, score_bytes: float | None = None) -> float:
    """Tokens per second of 2048 tokens over those of 256: in tiles, with other bytes of a score, in another width."""
    layout = replace(LAYER, hidden=hidden)

    def seconds(tokens: int) -> float:
        cell = V100Cell(layout, tokens)
        if score_bytes is not None:
            cell = replace(cell, score_bytes=(score_bytes, cell.score_bytes[1]))
        products = 2 * tokens * layout.weights / (CALIBRATED.gemm * V100.peak_flops)
        more = 0.0 if tile is None else waves(tokens, tile, hidden) - 1
        return float(cell.layer(tokens)[0]) + more * products

    return 2048 / seconds(2048) * seconds(256) / 256


def sensitivity() -> Sensitivity:
    """Longer sequences' throughput, as bytes of a score, tiles of products and the layer's width change."""
    first, *others = (longer(tile=tile) for tile in TILES)
    named = [f"{a} x {b}" for a, b in TILES]
    swings = (
        Swing("products without tiles", named[1], named[2], *others),
        Swing("20 bytes a score", f"{FUSED:g} (fused softmax)", "0 (fused attention)",
              longer(score_bytes=FUSED), longer(score_bytes=0.0)),
        Swing(f"hidden size, {LAYER.hidden}", "4096", "12288", longer(4096), longer(12288)),
    )  # fmt: skip
    return Sensitivity(
        "a layer of GPT3-1B: tokens per second, 2048 over 256", 1.0, longer(), "ratio", swings,
        f"tiles of {named[2]} on {MULTIPROCESSORS} multiprocessors; of {named[0]} it is {first:.2f}×, with a fused "
        f"softmax {longer(tile=TILES[0], score_bytes=FUSED):.2f}×",
    )  # fmt: skip


NOTES = (
    "the paper prints no numbers for this figure; the level below 256 tokens is what our layer takes for 256, counted",
)

if __name__ == "__main__":
    main("terapipe/fig03")
