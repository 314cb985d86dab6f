"""Table 1 (AlpaServe; thesis 4.1): sizes and latencies of the models, and the model sets S1 to S4."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles import ParallelConfig, device, load
from ...profiles.alpaserve.shipped import MODEL_SETS
from ..catalogue import FIGURES
from ..claims import Expectation, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLACK, BLUE, canvas, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER: dict[str, tuple[float, float, tuple[int, int, int, int]]] = {
    "bert-1.3b": (2.4, 151, (32, 0, 10, 0)),
    "bert-2.7b": (5.4, 238, (0, 0, 10, 0)),
    "bert-6.7b": (13.4, 395, (0, 32, 10, 0)),
    "bert-104b": (208, 4600, (0, 0, 0, 4)),
    "moe-1.3b": (2.6, 150, (0, 0, 10, 0)),
    "moe-2.4b": (4.8, 171, (0, 0, 10, 0)),
    "moe-5.3b": (10.6, 234, (0, 0, 10, 0)),
}
"""Table 1: model -> size (GB), latency (ms), instances in S1 to S4."""

EXPECTED = {
    "latency": Expectation(
        "latency of one query on one device, all models (largest deviation)",
        "Table 1",
        "0 %",
        at_most(0.005),
        "{:.2%}",
        kind="given",
    ),
    "size": Expectation(
        "size of the weights (largest deviation)",
        "Table 1",
        "0 %",
        at_most(0.01, partly=0.15),
        "{:.2%}",
        kind="given",
    ),
    "sets": Expectation(
        "instances in the sets S1–S4 (entries that differ)", "Table 1", "0", at_most(0), "{:.0f}", kind="given"
    ),
    "two replicas": Expectation(
        "replicas of BERT-2.6B that fit on one V100",
        "§6.2",
        "2",
        between(2, 2),
        "{:.0f}",
        kind="identity",
    ),
    "large": Expectation(
        "devices that one BERT-104B needs for its weights, fewest in any profiled configuration",
        "§6.3",
        "16",
        between(16, 16, partly=(16, 32)),
        "{:.0f}",
        kind="identity",
    ),
}


def models() -> Frame:
    """One row per model: the paper's figures and those of the shipped profile set.

    Returns
    -------
    DataFrame
        Columns model, size_gb_paper, size_gb, latency_ms_paper, latency_ms, and the instances in each set as
        S1_paper, S1, …, S4.
    """
    import pandas as pd

    profiles = load("alpaserve-v100")
    rows = []
    for name, (size, latency, counts) in PAPER.items():
        profile = profiles[name]
        config = min(profile.stages, key=lambda c: (c.op, c.pp))
        row = {
            "model": profile.name,
            "size_gb_paper": size,
            "size_gb": config.op * sum(profile.weight_bytes(config)) / 1e9,
            "latency_ms_paper": latency,
            "latency_ms": 1e3 * profile.single_device_latency(),
        }
        for set_name, count in zip(MODEL_SETS, counts, strict=True):
            row |= {f"{set_name}_paper": count, set_name: MODEL_SETS[set_name].get(profile.name, 0)}
        rows.append(row)
    return pd.DataFrame(rows)


def draw(frame: Frame, ax: Axes) -> Axes:
    """Draw latency against size, the paper's and ours."""
    ax.scatter(frame.size_gb, frame.latency_ms, color=BLUE, s=26, label="shipped profile", zorder=3)
    ax.scatter(
        frame.size_gb_paper,
        frame.latency_ms_paper,
        marker="o",
        s=80,
        facecolors="none",
        edgecolors=BLACK,
        label="Table 1",
    )
    for row in frame.itertuples(index=False):
        below = row.model.startswith("moe")
        ax.annotate(
            row.model,
            (row.size_gb, row.latency_ms),
            xytext=(0, -8 if below else 7),
            textcoords="offset points",
            ha="left" if below else "center",
            va="top" if below else "bottom",
            fontsize=8,
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="weights (GB)",
        ylabel="latency of one query (ms)",
        title=FIGURES["alpaserve/table1"].title,
    )
    ax.set(xlim=(1.5, 400), ylim=(100, 8000))
    plain_ticks(ax, "x", (2, 5, 10, 20, 50, 100, 200))
    plain_ticks(ax, "y", (100, 200, 500, 1000, 2000, 5000))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table; nothing in it is random, and fast is full."""
    session = Session("alpaserve/table1", fast, out, seed)
    frame = session.table(models())
    with canvas(width=5.6, height=3.2) as (figure, axes):
        draw(frame, axes[0, 0])
        session.figure(figure)

    profiles = load("alpaserve-v100")
    usable = device("v100-16gb").usable_memory_bytes
    fits = int(usable // profiles["bert-2.6b"].weight_bytes(ParallelConfig(1, 1))[0])
    large = profiles["bert-104b"]
    fewest = min(c.n_devices for c in large.configs if max(large.weight_bytes(c)) <= usable)
    differ = sum(int((frame[f"{s}_paper"] != frame[s]).sum()) for s in MODEL_SETS)
    return session.finish(
        [
            EXPECTED["latency"].judge((frame.latency_ms / frame.latency_ms_paper - 1).abs().max()),
            EXPECTED["size"].judge((frame.size_gb / frame.size_gb_paper - 1).abs().max()),
            EXPECTED["sets"].judge(differ),
            EXPECTED["two replicas"].judge(fits),
            EXPECTED["large"].judge(fewest, why="the largest stage carries the embedding beside its share of layers"),
        ],
        notes=["Table 1's BERT-2.7B is BERT-2.6B elsewhere in the paper; the profile answers to both names"],
    )


if __name__ == "__main__":
    main("alpaserve/table1")
