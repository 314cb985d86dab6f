"""Figure 3.7 (GraphPipe): throughput over numbers of branches (CANDLE-Uno) and over microbatch sizes (MMT)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ...simulator.palette import CYCLE
from ..claims import Claim, Expectation, at_least, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import canvas, plain_ticks
from .lead import Case, Lead
from .points import measure_all, over
from .sweeps import crossings, draw_sweeps, sweeps
from .swings import sensitivity
from .systems import MODELS, NOTES, SYSTEMS, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BRANCHES = (2, 4, 8, 16)
MICROBATCHES = (1, 2, 4, 8, 16, 32)
MMT_GPUS = 8
PAIR = ("GraphPipe", "PipeDream")

EXPECTED = {
    "sixteen": Expectation(
        "CANDLE-Uno with 16 branches: GraphPipe's throughput over PipeDream's, the largest of 4, 8 and 16 GPUs",
        "§3.7.3, Fig. 3.7 left", "up to 2×", between(1.7, 2.3, partly=(1.5, 2.3), beyond="above"), "{:.2f}×",
    ),
    "scales": Expectation(
        "CANDLE-Uno: numbers of GPUs for which the gap is larger with the most branches than with the fewest", "§3.7.3",
        "3 of 3", between(1.0, 1.0, partly=(0.6, 1.0)), "{:.0%}",
    ),
    "equal": Expectation(
        "MMT, equal microbatch sizes: GraphPipe's throughput over the better of PipeDream and Piper, the least of all "
        "sizes (always outperforms)", "§3.7.3, Fig. 3.7 right", "above 1", at_least(1.0, partly=0.97), "{:.3f}×",
    ),
    "growth": Expectation(
        "MMT: the same for the largest size over the smallest (better scalability with the microbatch)", "§3.7.3",
        "above 1", at_least(1.02, partly=0.99), "{:.2f}×",
    ),
}  # fmt: skip


def branch_points(gpus: tuple[int, ...], branches: tuple[int, ...]) -> list[Point]:
    """CANDLE-Uno on so many GPUs, each with its mini-batch (§3.10.3)."""
    uno = MODELS["candle-uno"]
    return [Point(s, uno.name, k, n, uno.batches[n]) for n in gpus for k in branches for s in PAIR]


def microbatch_points(sizes: tuple[int, ...], systems: Iterable[str] = SYSTEMS) -> list[Point]:
    """MMT with four branches, a mini-batch of 128 on eight GPUs, all systems at one microbatch size."""
    mmt = MODELS["mmt"]
    return [Point(s, mmt.name, mmt.branches, MMT_GPUS, mmt.batches[MMT_GPUS], b) for b in sizes for s in systems]


def judged(branches: Frame, sizes: Frame, swept: Frame) -> list[Claim]:
    """Judge the claims about the left panel and about the right one."""
    gaps = {int(n): over(part, "GraphPipe", "PipeDream", by="branches") for n, part in branches.groupby("gpus")}
    most, fewest = int(branches.branches.max()), int(branches.branches.min())
    widest = {n: gap[most] for n, gap in gaps.items() if most in gap}
    listed = "; ".join(f"{n} GPUs: " + ", ".join(f"{k}: {x:.2f}" for k, x in gap.items()) for n, gap in gaps.items())
    wider = [n for n, gap in gaps.items() if gap.get(most, 0.0) > gap.get(fewest, float("inf"))]
    claims: list[Claim] = []
    if most == BRANCHES[-1]:
        best = max(widest.values(), default=float("nan"))
        why = f"{CAUSE}. {LEAD.paper:g}× lies at {crossings(swept, LEAD.paper)}. As the figures are: {listed}"
        claims.append(EXPECTED["sixteen"].judge(best, why=why))
    claims.append(EXPECTED["scales"].judge(len(wider) / len(gaps), why=listed))
    found = sizes.pivot(index="fixed_microbatch", columns="system", values="samples_per_s").dropna(subset=["GraphPipe"])
    better = found.drop(columns="GraphPipe").max(axis=1)
    equal = (found["GraphPipe"] / better).dropna()
    said = ", ".join(f"{int(b)}: {x:.3f}" for b, x in equal.items())
    claims.append(EXPECTED["equal"].judge(float(equal.min()), shown=f"{equal.min():.3f}× ({said})", why=EQUAL))
    claims.append(EXPECTED["growth"].judge(float(equal.iloc[-1] / equal.iloc[0]), why=f"ratios by size: {said}"))
    return claims


CAUSE = (
    "by data sheet and tiles a layer is nearly as fast with 256 samples as with 2,048, so that a chain of 16 branches "
    "takes small microbatches and fills soon; where small ones are slow it cannot"
)
EQUAL = "a small microbatch over many replicas is no pipeline, and its all-reduce costs both alike"
LEAD = Lead(
    "CANDLE-Uno, 16 branches: GraphPipe over PipeDream", 2.0,
    tuple(
        Case("candle-uno", BRANCHES[-1], n, MODELS["candle-uno"].batches[n], f"{n} GPUs") for n in (8, 16)
    ),
)  # fmt: skip


def draw_branches(frame: Frame, ax: Axes) -> Axes:
    """Throughput over PipeDream's, a line for each number of GPUs."""
    for k, (gpus, part) in enumerate(frame.groupby("gpus")):
        gap = over(part, "GraphPipe", "PipeDream", by="branches")
        ax.plot(list(gap), list(gap.values()), marker="os^"[k], color=CYCLE[k], label=f"{gpus} GPUs")
    ax.axhline(1.0, color="0.6", lw=1, ls="--")
    ax.set(xscale="log", xlabel="branches", ylabel="GraphPipe over PipeDream", title="CANDLE-Uno")
    plain_ticks(ax, "x", tuple(sorted(frame.branches.unique())))
    ax.legend(fontsize=7)
    return ax


def draw_sizes(frame: Frame, ax: Axes) -> Axes:
    """Samples per second over microbatch sizes."""
    for (system, colour), marker in zip(SYSTEMS.items(), "os^", strict=True):
        mine = frame[(frame.system == system) & frame.samples_per_s.notna()].sort_values("fixed_microbatch")
        if len(mine):
            ax.plot(mine.fixed_microbatch, mine.samples_per_s, color=colour, marker=marker, label=system)
    ax.set(
        xscale="log", xlabel="samples of a microbatch", ylabel="samples/s", title=f"MMT on {MMT_GPUS} GPUs, batch 128"
    )
    plain_ticks(ax, "x", tuple(sorted(frame.fixed_microbatch.unique())))
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=7)
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: 4 GPUs, 3 numbers of branches, 3 sizes, no Piper; assumptions moved on 8 GPUs alone."""
    session = Session("graphpipe/fig07", fast, out, seed)
    left = branch_points((4,) if fast else (4, 8, 16), tuple(k for k in BRANCHES if not (fast and k == 8)))
    right = microbatch_points(MICROBATCHES[1:4], PAIR) if fast else microbatch_points(MICROBATCHES)
    total = len(left) + len(right)
    branches = session.table(measure_all(left, lambda done, _, what: progress(done, total, what)), "_branches")
    sizes = session.table(
        measure_all(right, lambda done, _, what: progress(len(left) + done, total, what)), "_microbatches"
    )
    lead = Lead(LEAD.claim, LEAD.paper, LEAD.cases[:1]) if fast else LEAD
    swept = session.table(sweeps(lead, fast, progress), "_swept")
    with canvas(1, 2, width=3.4, height=2.7) as (figure, axes):
        draw_branches(branches, axes[0, 0])
        draw_sizes(sizes, axes[0, 1])
        session.figure(figure)
    session.figure(draw_sweeps(swept, LEAD.paper), "_swept")
    found = sensitivity(lead, 1.2, swept, progress)
    return session.finish(judged(branches, sizes, swept), notes=(*NOTES, LEFT, RIGHT), sensitivity=(found,))


LEFT = "left: mini-batches of 4096, 8192 and 16384 samples on 4, 8 and 16 GPUs (§3.10.3), best microbatch sizes"
RIGHT = "right: the text says both two and four branches; four, as in the appendix"

if __name__ == "__main__":
    main("graphpipe/fig07")
