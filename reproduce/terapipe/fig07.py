"""Figure 7 (TeraPipe; thesis 2.7): longer sequences, GPT3-13B."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..claims import Claim, Expectation, at_least, at_most, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREEN, GREY, canvas, lighter
from .latencies import FIT_NOTE
from .points import median_error, speedups

SPEEDUP = {2048: 1.40, 4096: 2.76, 6144: 4.97, 8192: 7.83}
"""L -> speed-up, §2.5.1 and §2.5.3."""

EXPECTED = {
    **{
        str(n): Expectation(
            f"L = {n}: speed-up, planned by our dynamic programme, setting (5) left out of the fit", "§2.5.3", f"{x}×",
            within(x, 0.05, partly=0.15, beyond="above"), "{:.2f}×",
        )
        for n, x in SPEEDUP.items()
    },
    "grows": Expectation(
        "the gap grows with the sequence: speed-up of each length over that of the one before, the least", "§2.5.3",
        "above 1", at_least(1.2, partly=1.0), "{:.2f}×",
    ),
    "left out": Expectation(
        "speed-ups by our dynamic programme with all of setting (5) left out of the fit: largest error", "§2.5.3",
        "0 %", at_most(0.15, partly=0.2), "{:.1%}",
    ),
    "left out scheme": Expectation(
        "the same by the paper's slicings", "§2.5.3", "0 %", at_most(0.15, partly=0.2), "{:.1%}",
    ),
}  # fmt: skip


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    at = frame.set_index("tokens")
    made = [
        EXPECTED[str(n)].judge(
            float(at.left_out_own[n]),
            shown=f"{at.left_out_own[n]:.2f}× ({at.left_out_scheme[n]:.2f}× by the paper's slicing)",
            why=WHY,
        )
        for n in SPEEDUP
    ]
    own = at.left_out_own.to_numpy()
    made.append(EXPECTED["grows"].judge(float((own[1:] / own[:-1]).min())))
    for way, name in (("own", "left out"), ("scheme", "left out scheme")):
        column = f"left_out_{way}_error"
        worst = float(at[column].abs().max())
        made.append(EXPECTED[name].judge(worst, shown=f"{worst:.1%} (median {median_error(at, column):.1%})", why=WHY))
    return made


WHY = "our dynamic programme finds finer slicings than the paper's, which by our rates are faster than its own"


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast and full are the same. Nothing in it is random."""
    session = Session("terapipe/fig07", fast, out, seed)
    frame = session.table(speedups([(5, n) for n in SPEEDUP]))
    with canvas(1, 1, width=4.6, height=2.8) as (figure, axes):
        ax, at = axes[0, 0], np.arange(len(frame))
        bars = (
            ("paper_s", lighter(GREY), "paper, w/o TeraPipe"),
            ("ours_s", lighter(BLUE), "ours, w/o"),
            ("paper_sliced_s", GREY, "paper, w/ TeraPipe"),
            ("ours_sliced_s", BLUE, "ours, w/, its slicing"),
            ("ours_own_s", GREEN, "ours, w/, own slicing"),
        )
        for k, (column, colour, label) in enumerate(bars):
            bar = ax.bar(at + (k - 2) * 0.17, frame[column], 0.16, color=colour, label=label)
            if column in ("paper_sliced_s", "ours_own_s"):
                ratio = frame.paper if column == "paper_sliced_s" else frame.own
                ax.bar_label(bar, [f"{x:.2f}×" for x in ratio], fontsize=6, rotation=90, padding=2)
        ax.set_xticks(at, [f"{n}\n({b} sequences)" for n, b in zip(frame.tokens, (32, 8, 4, 2), strict=True)])
        ax.set(xlabel="tokens of a sequence", ylabel="seconds of an iteration", title="GPT3-13B (5)")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=7)
        session.figure(figure)
    return session.finish(judged(frame), notes=(FIT_NOTE,))


if __name__ == "__main__":
    main("terapipe/fig07")
