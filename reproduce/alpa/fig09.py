"""Figure 9 (Alpa; thesis 3.9): stages by the dynamic programme, or by rule, for GPT-3 and Wide-ResNet."""

from __future__ import annotations

import math
from pathlib import Path

from ..bars import bars, linear
from ..claims import Claim, Expectation, at_least, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREEN, ORANGE, canvas
from .points import FAST, measure_all
from .swings import stage_lead
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
    "the four stages of Wide-ResNet cost 6 % a block each in FLOPs, and convolutions as measured on V100 do not change "
    "that by much. Tried alone on 32 GPUs with 32 microbatches, over equal operator and equal layer: a network of 10 "
    "Gb/s 2.32× and 1.00×, of 14.3 Gb/s (what TeraPipe's latencies on the same nodes have for gradients) 2.09× and "
    "0.96×, of 100 Gb/s 1.00× both: clusters that end inside blocks send more. Plans that fill 0.45 of the memory, not "
    "0.9: 0.98× and 1.23×; both changes 1.08× and 1.31×. 96 microbatches 1.69× and 1.00×; a share of 0.3 of the peak "
    "at sides from 54 on 1.05× and 1.12×, of 0.35 at sides up to 7 0.87× and 1.00×; 8 layers 1.06× and 1.00×; no "
    "recomputation 1.08× and 0.94×"
)


def points(fast: bool, progress: Progress = quiet) -> Frame:
    """All points, up to 32 GPUs; GPT's equal operator up to 16 and with the number of microbatches that DP chose.

    Fast: where stages differ, GPT on 16 without equal operator, Wide-ResNet on 32, one number of microbatches each.
    """
    import pandas as pd

    layer, every = ("Equal layer", "Alpa"), tuple(COLOURS)
    if fast:
        gpt = measure_all(("gpt",), (16,), progress, systems=layer, counts=FAST)
        return pd.concat(
            [gpt, measure_all(("resnet",), (32,), progress, systems=every, counts=FAST)], ignore_index=True
        )
    sizes = (1, 4, 8, 16, 32)
    gpt = measure_all(("gpt",), sizes, progress, systems=layer)
    frames = [gpt, measure_all(("resnet",), sizes, progress, systems=every)]
    chosen = gpt[(gpt.system == "Alpa") & (gpt.gpus <= MOST)]
    same = {int(n): (int(count),) for n, count in zip(chosen.gpus, chosen.microbatches, strict=True)}
    frames.append(measure_all(("gpt",), tuple(same), progress, systems=("Equal operator",), counts=same))
    return pd.concat(frames, ignore_index=True)


MOST = 16
"""GPUs up to which GPT's equal operator is planned: its clusters end inside blocks, where 400 combinations of specs
cross instead of 16. Half a processor minute on 16, several on 32."""


def judged(frame: Frame) -> list[Claim]:
    """Judge the claims that the measured sizes decide."""
    wide = frame.pivot(index=["family", "gpus"], columns="system", values="pflops")
    several = wide[wide.index.get_level_values("gpus") > 1]
    resnet = several.xs("resnet", level="family")
    lead = (resnet["Alpa"] / resnet["Equal operator"]).fillna(math.inf)
    gpt = several.xs("gpt", level="family")
    planned = set(frame[(frame.family == "gpt") & (frame.system == "Equal operator")].gpus)
    same = (gpt["Equal layer"] / gpt["Alpa"]).fillna(0.0)
    farthest = float(same[(same - 1).abs().idxmax()])
    listed = ", ".join(f"{n}: {x:.2f}" for n, x in same.items())
    claims = [
        EXPECTED["always"].judge(float(lead.min()), shown=f"{lead.min():.3f}× ({lead.idxmin()} GPUs)"),
        EXPECTED["gpt"].judge(farthest, shown=f"{farthest:.3f}× ({listed})"),
    ]
    if planned:
        known = gpt[gpt.index.isin(planned)]
        ahead = (known["Alpa"] / known["Equal operator"]).fillna(math.inf)
        shown = f"{ahead.min():.3f}× ({ahead.idxmin()} GPUs)"
        claims.append(EXPECTED["gpt always"].judge(float(ahead.min()), shown=shown, why=GPT_WHY))
    row = wide.loc["resnet", 32]
    for key, system in (("operator", "Equal operator"), ("layer", "Equal layer")):
        shown = f"{system} runs out of memory" if math.isnan(row[system]) else None
        claims.append(EXPECTED[key].judge(float(row["Alpa"] / row[system]), shown=shown, why=WHY))
    return claims


GPT_WHY = (
    "clusters that end inside blocks can be balanced more finely than whole blocks, and a cut inside a block is not "
    "dear here: the stage programme, as in the paper, does not count transfers between stages"
)


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast: see `points`. Nothing in it is random."""
    session = Session("alpa/fig09", fast, out, seed)
    frame = session.table(points(fast, progress))
    with canvas(1, 2, width=3.6, height=2.8) as (figure, axes):
        for ax, family in zip(axes[0], ("gpt", "resnet"), strict=True):
            part = frame[frame.family == family]
            bars(part, ax, COLOURS, ideal={} if fast else linear(part, "Alpa"))
            ax.set(ylabel="PFLOP/s", title=FAMILIES[family].title)
        axes[0, 1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7, frameon=False)
        session.figure(figure)
    swung = [] if fast else [stage_lead(x, s, 32, FAST[32]) for x, s in ((2.6, "Equal operator"), (1.6, "Equal layer"))]
    return session.finish(judged(frame), NOTES, swung)


NOTES = (
    "settings are those of Fig. 7; 'Alpa' is the paper's 'DP'",
    "equal layers can be ahead: points are simulated with transfers between stages, which the programme does not see "
    "(§3.7); by its own Eq. 2 they never are. `cross_stage` has it count them",
    "Wide-ResNet's convolutions have the shares of the peak that DeepBench measured (`convolutions`)",
)

if __name__ == "__main__":
    main("alpa/fig09")
