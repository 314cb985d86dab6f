"""Table 3.1 (GraphPipe): seconds that Piper, PipeDream and GraphPipe search."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError, LimitError
from ..claims import Claim, Expectation, at_least, at_most, up_to
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import GREY, canvas, outside_legend
from .counted import counted, counts_in_words, moved
from .spared import why_completed
from .systems import GPUS, MODELS, SYSTEMS, Point, graph_of, searched

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER: Mapping[str, Mapping[str, tuple[float, ...]]] = MappingProxyType(
    {
        "mmt": {
            "Piper": (52.9, 126, 304, 745), "PipeDream": (2.57, 11.9, 44.3, 151), "GraphPipe": (0.12, 0.76, 3.00, 10.11)
        },
        "dlrm": {"PipeDream": (6.39, 31.3, 131, 505), "GraphPipe": (0.33, 2.73, 13.28, 54.6)},
        "candle-uno": {"PipeDream": (3.84, 17.0, 66.10, 234), "GraphPipe": (0.19, 1.43, 6.14, 22.37)},
    }
)  # fmt: skip
"""Table 3.1: model -> system -> seconds on 4, 8, 16 and 32 GPUs, on an Apple M1 Max; no row: no plan found."""

EXPECTED = {
    "pipedream least": Expectation(
        "our PipeDream's seconds over our GraphPipe's, the least of all", "§3.7.2, Table 3.1", "9.2×",
        at_least(9.0, partly=1.0), "{:.2f}×", timed=True,
    ),
    "pipedream most": Expectation(
        "our PipeDream's seconds over our GraphPipe's, the largest", "abstract, Table 3.1", "21.4×",
        up_to(21.4, 0.15, partly=0.4), "{:.2f}×", timed=True,
    ),
    "piper most": Expectation(
        "MMT: our Piper's seconds over our GraphPipe's, the largest", "Table 3.1", "440.5×",
        up_to(440.5, 0.15, partly=0.4), "{:.0f}×", timed=True,
    ),
    "piper": Expectation(
        "searches for DLRM and CANDLE-Uno that Piper completes in 745 processor seconds and 4 GiB", "Table 3.1", "none",
        at_most(0), "{:.0f}", timed=True,
    ),
    "minute": Expectation(
        "our GraphPipe's longest search (s)", "§3.7.2", "within a minute (54.6 s)", at_most(60.0), "{:.2f} s",
        timed=True,
    ),
}  # fmt: skip

FAST = (
    "our PipeDream and Piper are fast programs of their own, exact like the published ones, on the same stage costs: "
    "the published ones are compared by the paper's seconds"
)


def timed(system: str, model: str, gpus: int, branches: int) -> dict[str, Any]:
    """Time one search, in processor seconds of this process; NaN where it cannot be completed."""
    found = MODELS[model]
    graph_of(model, branches)  # read before the clock starts
    paper = PAPER[model].get(system)
    row: dict[str, Any] = {
        "model": model, "branches": branches, "gpus": gpus, "system": system,
        "paper_s": math.nan if paper is None else paper[GPUS.index(gpus)],
    }  # fmt: skip
    began = time.process_time()
    try:
        searched(Point(system, model, branches, gpus, found.batches[gpus]))
    except (InfeasibleError, LimitError) as error:
        return row | {"seconds": math.nan, "note": " ".join(str(error).split())}
    return row | {"seconds": time.process_time() - began, "note": ""}


def measured(fast: bool, progress: Progress) -> Frame:
    """Time all searches, each after one that compiles what it needs.

    Fast: Piper on CANDLE-Uno with the appendix's seven branches, a fifth of the downsets, and on 4 GPUs alone.
    """
    import pandas as pd

    gpus = GPUS[:2] if fast else GPUS
    jobs = [
        (s, m, n)
        for m in MODELS
        for n in gpus
        for s in SYSTEMS
        if not (fast and (s, m) == ("Piper", "candle-uno") and n > gpus[0])
    ]
    for system in SYSTEMS:  # numba
        searched(Point(system, "candle-uno", 2, 4, 64))
    rows: list[dict[str, Any]] = []
    for k, (system, model, n) in enumerate(jobs):
        progress(k, len(jobs), f"{model} on {n} GPUs: {system}")
        fewer = fast and (system, model) == ("Piper", "candle-uno")
        rows.append(timed(system, model, n, MODELS[model].branches if fewer else MODELS[model].branches_searched))
    progress(len(jobs), len(jobs), "")
    return pd.DataFrame(rows)


def judged(frame: Frame, tried: Frame, more: Sequence[str] = ()) -> list[Claim]:
    """Judge the ratios within this run; the paper's seconds are of another machine, and only drawn.

    Parameters
    ----------
    frame : DataFrame
        Seconds of every search.
    tried : DataFrame
        Of `counted`: the reason.
    more : sequence of str
        Why Piper completes what the paper's does not.
    """
    ours = frame.pivot(index=["model", "gpus"], columns="system", values="seconds")
    dream = (ours["PipeDream"] / ours["GraphPipe"]).dropna()
    piper = (ours["Piper"] / ours["GraphPipe"]).loc["mmt"].dropna()
    others = frame[(frame.system == "Piper") & (frame.model != "mmt")]
    listed = "; ".join(f"{MODELS[m].title}, {n}: {x:.2f}" for (m, n), x in dream.items())
    return [
        EXPECTED["pipedream least"].judge(float(dream.min()), why=f"{FAST}; {listed}. {counts_in_words(tried)}"),
        EXPECTED["pipedream most"].judge(float(dream.max()), why=f"{FAST}. {counts_in_words(tried)}"),
        EXPECTED["piper most"].judge(float(piper.max()) if len(piper) else math.nan, why=f"{FAST}; {_priced(tried)}"),
        EXPECTED["piper"].judge(
            int(others.seconds.notna().sum()),
            why="; ".join([*(f"{MODELS[r.model].title}, {r.gpus}: {r.seconds:.0f} s" for r in _done(others)), *more]),
        ),
        EXPECTED["minute"].judge(float(ours["GraphPipe"].max())),
    ]


def _priced(tried: Frame) -> str:
    """How many stages Piper may choose from, in words."""
    row = tried[tried.piper_stages.notna()].iloc[0]
    return f"Piper may choose from {row.piper_stages:,.0f} stages, our GraphPipe's tree has {row.our_tree_stages:,}"


def _done(frame: Frame) -> Iterator[Any]:
    """The searches that were completed, row by row."""
    return frame[frame.seconds.notna()].itertuples()


def draw(frame: Frame, ax: Axes, model: str) -> Axes:
    """Draw one panel: our numbers in colour, the paper's in grey behind them."""
    part = frame[frame.model == model]
    gpus = sorted(part.gpus.unique())
    width = 0.8 / len(SYSTEMS)
    for k, (system, colour) in enumerate(SYSTEMS.items()):
        mine = part[part.system == system].set_index("gpus")
        at = [g - 0.4 + (k + 0.5) * width for g in range(len(gpus))]
        ax.bar(
            at, [mine.paper_s.get(n, math.nan) for n in gpus], width, color="none", edgecolor=GREY, hatch="///", lw=0.5
        )
        ax.bar(at, [mine.seconds.get(n, math.nan) for n in gpus], 0.6 * width, color=colour, label=system)
    ax.set_xticks(range(len(gpus)), [str(n) for n in gpus])
    found = MODELS[model]
    title = f"{found.title} ({found.branches_searched} branches)"
    ax.set(yscale="log", xlabel="GPUs", ylabel="search (s)", title=title)
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table. Fast: 4 and 8 GPUs. Nothing in it is random but the machine's load."""
    session = Session("graphpipe/table1", fast, out, seed)
    frame = session.table(measured(fast, progress))
    with canvas(1, 3, width=3.2, height=2.6, sharey=True) as (figure, axes):
        for ax, model in zip(axes[0], MODELS, strict=True):
            draw(frame, ax, model)
        axes[0, 0].bar([0], [math.nan], color="none", edgecolor=GREY, hatch="///", lw=0.5, label="paper")
        outside_legend(figure, axes[0, 0])
        session.figure(figure)
    tried = session.table(counted(GPUS[:2], progress), "_counted")
    claims = judged(frame, tried, [why_completed()])
    found = moved(tried, claims[1].value, 21.4)
    return session.finish(claims, notes=NOTES, sensitivity=(found,))


NOTES = (
    "branches as §3.7.2 counts them: MMT 2, DLRM 8, CANDLE-Uno 8 (the appendix: 4, 7 and 7)",
    "processor seconds of one process, all microbatch sizes tried; the paper's on an Apple M1 Max. " + FAST,
    "in the picture: colours are ours, hatched bars the paper's",
)

if __name__ == "__main__":
    main("graphpipe/table1")
