"""Figure 11: how long requests and answers are in the two data sets, as the distributions that stand for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...traces.lengths import ALPACA, SHAREGPT, LengthProfile
from ..claims import Expectation, at_least, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, ORANGE, canvas, outside_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DATA = {"ShareGPT": SHAREGPT, "Alpaca": ALPACA}
BIN = {"ShareGPT": 50, "Alpaca": 10}
"""Tokens in a bar."""
SHOWN = {"ShareGPT": 2000, "Alpaca": 400}

EXPECTED = {
    "prompt": Expectation(
        "given, and kept by the samples: ShareGPT's prompts are longer than Alpaca's, means", "§5.6.1, Fig. 11",
        "8.4×", within(8.4, 0.02, partly=0.05), "{:.2f}×", kind="given",
    ),
    "output": Expectation(
        "given, and kept by the samples: ShareGPT's outputs are longer than Alpaca's, means", "§5.6.1, Fig. 11",
        "5.8×", within(5.8, 0.02, partly=0.05), "{:.2f}×", kind="given",
    ),
    "variance": Expectation(
        "ShareGPT's outputs vary more than Alpaca's, standard deviations", "§5.6.1", "higher variance",
        at_least(1.0), "{:.1f}×", kind="given",  # means are given, CVs are taken to be equal
    ),
    "longest": Expectation(
        "share of the samples that fit OPT's 2048 tokens", "§5.3", "all", at_least(1.0), "{:.0%}",
        kind="identity",
    ),
}  # fmt: skip


def histograms(n: int, seed: int) -> Frame:
    """Relative frequencies, one row per bar: dataset, kind ("input" or "output"), tokens (left edge), share, mean."""
    import numpy as np
    import pandas as pd

    parts: list[Frame] = []
    for name, profile in DATA.items():
        drawn = profile.sample(n, seed)
        for kind, tokens in (("input", drawn.prompt), ("output", drawn.output)):
            edges = np.arange(0, 2048 + BIN[name], BIN[name])
            counts, _ = np.histogram(tokens, edges)
            row = {"dataset": name, "kind": kind, "tokens": edges[:-1], "share": counts / n, "mean": tokens.mean()}
            parts.append(pd.DataFrame(row | {"std": tokens.std()}))
    return pd.concat(parts, ignore_index=True)


def draw(frame: Frame, ax: Axes, name: str) -> Axes:
    """Draw the input and output lengths of one data set."""
    for kind, colour in (("input", BLUE), ("output", ORANGE)):
        part = frame[(frame.dataset == name) & (frame.kind == kind)]
        ax.bar(part.tokens, part.share, BIN[name], align="edge", color=colour, alpha=0.6, label=f"{kind} (line: mean)")
        ax.axvline(part["mean"].iloc[0], color=colour, linewidth=1, linestyle="--")
    ax.set(xlim=(0, SHOWN[name]), xlabel="tokens", ylabel="share of requests", title=name)
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: a million samples of each; fast: 50,000."""
    session = Session("vllm/fig11", fast, out, seed)
    n = 50_000 if fast else 1_000_000
    progress(0, 1, "sampling")
    frame = session.table(histograms(n, seed))
    with canvas(1, 2) as (figure, axes):
        for ax, name in zip(axes[0], DATA, strict=True):
            draw(frame, ax, name)
        outside_legend(figure, axes[0, 0])
        session.figure(figure)
    of = frame.groupby(["dataset", "kind"])[["mean", "std"]].first()
    longest = min(_fitting(profile, n, seed) for profile in DATA.values())
    progress(1, 1, "")
    return session.finish(
        [
            EXPECTED["prompt"].judge(of["mean"]["ShareGPT", "input"] / of["mean"]["Alpaca", "input"]),
            EXPECTED["output"].judge(of["mean"]["ShareGPT", "output"] / of["mean"]["Alpaca", "output"]),
            EXPECTED["variance"].judge(of["std"]["ShareGPT", "output"] / of["std"]["Alpaca", "output"]),
            EXPECTED["longest"].judge(longest),
        ],
        notes=[
            "the data sets are not shipped: truncated log-normals with the published means stand for them, with the "
            "spread that Fig. 2 implies for ShareGPT's outputs and the same for the other three (traces.lengths)"
        ],
    )


def _fitting(profile: LengthProfile, n: int, seed: int) -> float:
    drawn = profile.sample(n, seed)
    return float((drawn.prompt + drawn.output <= 2048).mean())


if __name__ == "__main__":
    main("vllm/fig11")
