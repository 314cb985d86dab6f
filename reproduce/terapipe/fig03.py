"""Figure 3 (TeraPipe; thesis 2.3): forward time and throughput of one layer of GPT3-1B on a V100, by tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...planners.terapipe.v100.cell import FLAT_TOKENS, V100Cell, V100Layout
from ..claims import Claim, Expectation, at_least, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
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
    late = float(cell.layer(256, 1792)[0] / cell.layer(256)[0])
    return [
        EXPECTED["flat"].judge(float(ms[FLAT_TOKENS] / ms[1])),
        EXPECTED["throughput"].judge(float(rate[256] / rate[32])),
        EXPECTED["longer"].judge(
            float(rate[2048] / rate[256]),
            why="our attention reads and writes all scores many times, as the published program does: two fifths of "
            "the layer's time at 2048 tokens of this narrow model",
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
    return session.finish(judged(frame), notes=NOTES)


NOTES = (
    "the paper prints no numbers for this figure; the level below 256 tokens is what our layer takes for 256, counted",
)

if __name__ == "__main__":
    main("terapipe/fig03")
