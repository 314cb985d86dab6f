"""Figure 3.6 (GraphPipe): throughput of MMT, DLRM and CANDLE-Uno on 4 to 32 V100s of Summit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..bars import bars
from ..claims import Claim, Expectation, at_least, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import canvas, outside_legend
from .lead import Case, Lead
from .points import measure_all, over
from .spared import why_completed
from .sweeps import crossings, draw_sweeps, sweeps
from .swings import sensitivity
from .systems import GPUS, MODELS, NOTES, PIPER_GIB, PIPER_STATES, SYSTEMS, Model, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXPECTED = {
    "most": Expectation(
        "GraphPipe's throughput over PipeDream's or Piper's, the largest of all points", "abstract, §3.1, Fig. 3.6",
        "up to 1.61×", between(1.37, 1.85, partly=(1.3, 1.85), beyond="above"), "{:.2f}×",
    ),
    "never worse": Expectation(
        "points where PipeDream or Piper is faster than GraphPipe by more than 1 %", "§3.7.1",
        "1 (all but one GPU configuration)", at_most(1, partly=2), "{:.0f}",
    ),
    "widens": Expectation(
        "models whose gap to PipeDream is larger on the most GPUs than on the fewest", "§3.7.1", "3 of 3",
        between(3, 3, partly=(2, 3)), "{:.0f} of 3",
    ),
    "depth": Expectation(
        "pipeline depth of PipeDream over GraphPipe's on the most GPUs, mean of the models (greatly reduced)",
        "§3.7.1", "greatly reduced", at_least(1.5, partly=1.1), "{:.2f}×",
    ),
    "piper": Expectation(
        "DLRM and CANDLE-Uno: share of points that Piper finds no plan for in 745 processor seconds and 4 GiB",
        "§3.7.1", "all", between(1.0, 1.0, partly=(0.5, 1.0)), "{:.0%}",
    ),
}  # fmt: skip


def points(gpus: tuple[int, ...], fast: bool) -> list[Point]:
    """Every system on every model, with the appendix's numbers of branches.

    Fast: Piper's searches on the fewest GPUs alone, and none on MMT; they take most of the time.
    """
    return [
        Point(system, m.name, m.branches, n, m.batches[n])
        for m in MODELS.values()
        for n in gpus
        for system in SYSTEMS
        if not (fast and system == "Piper" and (m.name == "mmt" or n > gpus[0]))
    ]


def judged(frame: Frame, swept: Frame, more: str = "") -> list[Claim]:
    """Judge the claims that the measured points decide; what moves the lead, and `more` of Piper, is their reason."""
    gaps = {m: {s: over(frame[frame.model == m], "GraphPipe", s) for s in SYSTEMS if s != "GraphPipe"} for m in MODELS}
    every = {(m, s, n): x for m, by in gaps.items() for s, found in by.items() for n, x in found.items()}
    most = max(every, key=every.__getitem__)
    # Plans of equal quality differ by less than 1 %: microbatches come in powers of two.
    slower = [k for k, x in every.items() if x < 0.99]
    first, last = int(frame.gpus.min()), int(frame.gpus.max())
    wider = [m for m, by in gaps.items() if by["PipeDream"].get(last, 0.0) > by["PipeDream"].get(first, float("inf"))]
    listed = "; ".join(
        f"{MODELS[m].title}: " + ", ".join(f"{n}: {x:.2f}" for n, x in by["PipeDream"].items())
        for m, by in gaps.items()
    )
    at = frame[frame.gpus == last].pivot(index="model", columns="system", values="depth")
    piper = frame[(frame.system == "Piper") & (frame.model != "mmt")]
    return [
        EXPECTED["most"].judge(
            every[most], shown=f"{every[most]:.2f}× ({MODELS[most[0]].title}, {most[2]} GPUs, over {most[1]})",
            why=f"{CAUSE}. {LEAD.paper:g}× lies at {crossings(swept, LEAD.paper)}. As the figures are, over PipeDream: "
            f"{listed}",
        ),
        EXPECTED["never worse"].judge(
            len({(m, n) for m, _, n in slower}),
            why="; ".join(f"{MODELS[m].title}, {n} GPUs: {every[m, s, n]:.2f} of {s}" for m, s, n in slower),
        ),
        EXPECTED["widens"].judge(len(wider), why=f"over PipeDream: {listed}"),
        EXPECTED["depth"].judge(
            float((at["PipeDream"] / at["GraphPipe"]).mean()),
            why="; ".join(f"{MODELS[m].title}: {d.PipeDream:.0f} and {d.GraphPipe:.0f}" for m, d in at.iterrows()),
        ),
        EXPECTED["piper"].judge(float(piper.samples_per_s.isna().mean()), why=f"{_piper(piper)}{more and '; '}{more}"),
    ]  # fmt: skip


CAUSE = (
    "a shallow pipeline gains most where small microbatches are slow, by the runtime's time for each pass or by "
    "products with few rows, and where memory keeps a deep one from larger microbatches"
)
LEAD = Lead(
    "GraphPipe over PipeDream, the largest", 1.61,
    tuple(
        Case(m, MODELS[m].branches, n, MODELS[m].batches[n], f"{title}, {n} GPUs")
        for m, n, title in (("candle-uno", 8, "CANDLE-Uno"), ("mmt", 8, "MMT"), ("mmt", 16, "MMT"))
    ),
)  # fmt: skip


WALL = f"{PIPER_GIB:g} GiB hold {PIPER_STATES:,} downsets and their stages (measured on CANDLE-Uno)"


def _piper(frame: Frame) -> str:
    """What Piper did on each model, in words."""
    said: list[str] = []
    for model, part in frame.groupby("model"):
        none = part[part.samples_per_s.isna()]
        took = part.planning_s.max()
        said += [f"{MODELS[str(model)].title}: {WALL}; {none.note.iloc[0]}"] if len(none) else []
        said += [f"{MODELS[str(model)].title}: plans in {took:.0f} s at most"] if len(none) < len(part) else []
    return "; ".join(said)


def draw(frame: Frame, ax: Axes, model: Model) -> Axes:
    """One panel: samples per second of each system over GPUs; × where it finds no plan."""
    bars(frame[frame.model == model.name], ax, SYSTEMS, value="samples_per_s")
    ax.set(ylabel="samples/s", title=f"{model.title} ({model.branches} branches)")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: 4 and 8 GPUs, Piper on 4, assumptions moved on CANDLE-Uno alone. Nothing is random."""
    session = Session("graphpipe/fig06", fast, out, seed)
    lead = Lead(LEAD.claim, LEAD.paper, LEAD.cases[:1]) if fast else LEAD
    swept = session.table(sweeps(lead, fast, progress), "_swept")
    frame = session.table(measure_all(points(GPUS[:2] if fast else GPUS, fast), progress))
    with canvas(1, 3, width=3.2, height=2.6) as (figure, axes):
        for ax, model in zip(axes[0], MODELS.values(), strict=True):
            draw(frame, ax, model)
        outside_legend(figure, axes[0, 0])
        session.figure(figure)
    session.figure(draw_sweeps(swept, LEAD.paper), "_swept")
    found = sensitivity(lead, 1.2, swept, progress)
    return session.finish(judged(frame, swept, why_completed()), notes=(*NOTES, BRANCHES), sensitivity=(found,))


BRANCHES = (
    "branches as in the appendix (§3.10.3): MMT 4, DLRM 7 dense and 7 sparse, CANDLE-Uno 7; §3.7.2 says 2, 8 and 8"
)

if __name__ == "__main__":
    main("graphpipe/fig06")
