"""Figure 9 (Alpa; thesis 3.9): stages by the dynamic programme, or by rule, for GPT-3 and Wide-ResNet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ..bars import bars, linear
from ..claims import Claim, Expectation, at_least, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREEN, ORANGE, canvas
from .points import measure_all
from .systems import FAMILIES
from .tolerance import speedup

COLOURS = {"Equal operator": ORANGE, "Equal layer": GREEN, "Alpa": BLUE}
"""Rule -> colour; "Alpa" is the paper's "DP"."""

EXPECTED = {
    "operator": Expectation(
        "Wide-ResNet on 32 GPUs: DP's speedup over equal operator", "§3.8.3", "2.6×", speedup(2.6),
        "{:.2f}×",
    ),
    "layer": Expectation(
        "Wide-ResNet on 32 GPUs: DP's speedup over equal layer", "§3.8.3", "1.6×", speedup(1.6), "{:.2f}×",
    ),
    "always": Expectation(
        "Wide-ResNet: DP always outperforms equal operator: its speedup, the least of all sizes with several GPUs",
        "§3.8.3", "above 1", at_least(1.0, partly=0.99), "{:.3f}×",
    ),
    "gpt always": Expectation(
        "GPT: DP always outperforms equal operator: its speedup, the least of all sizes with several GPUs",
        "§3.8.3", "above 1", at_least(1.0, partly=0.99), "{:.3f}×",
    ),
    "gpt": Expectation(
        "GPT: equal layer performs the same as DP: its throughput over DP's, the farthest from 1 of all sizes",
        "§3.8.3", "1", between(0.98, 1.02, partly=(0.93, 1.07)), "{:.3f}×",
    ),
}  # fmt: skip


WHY = (
    "Wide-ResNet's blocks take equally long in our model (a convolution of half the side has twice the channels), so "
    "equal layers are the best ones here; operators of a cluster differ little more"
)


def points(sizes: Sequence[int], progress: Progress = quiet) -> Frame:
    """All points. GPT goes without "equal operator", whose clusters our planner prices too slowly (see the notes)."""
    import pandas as pd

    gpt = measure_all(("gpt",), sizes, progress, systems=("Equal layer", "Alpa"))
    return pd.concat([gpt, measure_all(("resnet",), sizes, progress, systems=tuple(COLOURS))], ignore_index=True)


def judged(frame: Frame, fast: bool) -> list[Claim]:
    """Judge the claims that the measured sizes decide."""
    wide = frame.pivot(index=["family", "gpus"], columns="system", values="pflops")
    several = wide[wide.index.get_level_values("gpus") > 1]
    resnet = several.xs("resnet", level="family")
    lead = (resnet["Alpa"] / resnet["Equal operator"]).fillna(math.inf)
    gpt = several.xs("gpt", level="family")
    same = (gpt["Equal layer"] / gpt["Alpa"]).fillna(0.0)
    farthest = float(same[(same - 1).abs().idxmax()])
    listed = ", ".join(f"{n}: {x:.2f}" for n, x in same.items())
    claims = [
        EXPECTED["always"].judge(float(lead.min()), shown=f"{lead.min():.3f}× ({lead.idxmin()} GPUs)"),
        EXPECTED["gpt"].judge(farthest, shown=f"{farthest:.3f}× ({listed})"),
    ]
    if not fast:
        row = wide.loc["resnet", 32]
        for key, system in (("operator", "Equal operator"), ("layer", "Equal layer")):
            value = float(row["Alpa"] / row[system])
            shown = f"{system} runs out of memory" if math.isnan(row[system]) else None
            claims.append(EXPECTED[key].judge(value, shown=shown, why=WHY))
    return claims


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure, up to 32 GPUs; fast: up to 8. Nothing in it is random."""
    session = Session("alpa/fig09", fast, out, seed)
    sizes = tuple(n for n in (1, 4, 8, 16, 32) if n <= (8 if fast else 32))
    frame = session.table(points(sizes, progress))
    with canvas(1, 2, width=3.6, height=2.8) as (figure, axes):
        for ax, family in zip(axes[0], ("gpt", "resnet"), strict=True):
            part = frame[frame.family == family]
            bars(part, ax, COLOURS, ideal=linear(part, "Alpa"))
            ax.set(ylabel="PFLOP/s", title=FAMILIES[family].title)
        axes[0, 0].legend(loc="upper left", fontsize=7)
        session.figure(figure)
    return session.finish(judged(frame, fast), notes=NOTES)


NOTES = (
    "settings are those of Fig. 7; 'Alpa' is the paper's 'DP'",
    "equal layers can be ahead: points are simulated with transfers between stages, which the programme does not see "
    "(§3.7); by its own Eq. 2 they never are. `cross_stage` has it count them",
    "equal operator is left out on GPT: its clusters cut attention in the middle, where so much crosses that every run "
    "of clusters needs an ILP of its own, minutes for each submesh",
)

if __name__ == "__main__":
    main("alpa/fig09")
