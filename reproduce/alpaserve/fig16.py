"""Figure 16 (AlpaServe; thesis 4.16): overhead of pipelining under the manual partition and the automatic one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles import ParallelConfig, Partition, auto_partition, equal_layers
from ...profiles.alpaserve.shipped import comm_model, layer_table
from ..claims import Expectation, at_least, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import COLOURS, canvas, lighter, outside_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODELS = {"bert-1.3b": "a: Transformer 1.3B", "bert-2.6b": "b: Transformer 2.6B"}
STAGES = (1, 2, 4, 8)
PARTITIONS = {"manual": equal_layers, "automatic": auto_partition}
OVERHEADS = ("communication", "uneven partition")

EXPECTED = {
    "bert-1.3b": Expectation(
        "1.3B, eight stages: the automatic partition cuts the total overhead",
        "§6.6, Fig. 16a",
        "32.9 %",
        within(0.329, 0.30, partly=0.60),
        "{:.1%}",
        kind="calibrated",
    ),
    "bert-2.6b": Expectation(
        "2.6B, eight stages: the automatic partition cuts the total overhead",
        "§6.6, Fig. 16b",
        "46.7 %",
        within(0.467, 0.30, partly=0.60),
        "{:.1%}",
        kind="calibrated",
    ),
    "planned bert-1.3b": Expectation(
        "operators by a roofline, nothing fitted: 1.3B, eight stages: the automatic partition cuts the overhead",
        "§6.6, Fig. 16a",
        "32.9 %",
        within(0.329, 0.30, partly=0.60, beyond="above"),
        "{:.1%}",
    ),
    "planned bert-2.6b": Expectation(
        "operators by a roofline, nothing fitted: 2.6B, eight stages: the automatic partition cuts the overhead",
        "§6.6, Fig. 16b",
        "46.7 %",
        within(0.467, 0.30, partly=0.60, beyond="above"),
        "{:.1%}",
    ),
    "never worse": Expectation(
        "the automatic partition is never worse (least reduction over all models and stages)",
        "§6.6",
        "≥ 0 %",
        at_least(-1e-9),
        "{:.1%}",
        kind="identity",
    ),
}


def overheads() -> Frame:
    """Overhead of every model, number of stages and partition.

    Returns
    -------
    DataFrame
        Columns model, stages, partition ("manual" or "automatic"), part, seconds; parts are computation,
        communication and uneven partition and add up to stages × slowest stage.
    """
    import pandas as pd

    rows = []
    for model in MODELS:
        table, comm = layer_table(model), comm_model(model)
        for stages in STAGES:
            for name, partition in PARTITIONS.items():
                cut: Partition = partition(table, ParallelConfig(1, stages), comm)
                seconds = {
                    "computation": cut.computation_s,
                    "communication": cut.communication_s,
                    "uneven partition": cut.uneven_s,
                }
                rows += [
                    {"model": model, "stages": stages, "partition": name, "part": part, "seconds": s}
                    for part, s in seconds.items()
                ]
    return pd.DataFrame(rows)


def draw(frame: Frame, model: str, ax: Axes) -> Axes:
    """Draw the bars of one model: the manual partition lighter, the automatic one darker."""
    mine = frame[frame.model == model]
    for shift, name, white in ((-0.2, "manual", 0.55), (0.2, "automatic", 0.0)):
        wide = mine[mine.partition == name].pivot(index="stages", columns="part", values="seconds")
        bottom = 0.0 * wide["computation"]
        for part in ("computation", *OVERHEADS):
            at = [i + shift for i in range(len(wide))]
            ax.bar(
                at, 1e3 * wide[part], 0.36, bottom=1e3 * bottom, color=lighter(COLOURS[part], white),
                label=f"{part}, {name}",
            )  # fmt: skip
            bottom = bottom + wide[part]
    ax.set_xticks(range(len(STAGES)), [str(n) for n in STAGES])
    ax.set(xlabel="pipeline stages", ylabel="effective latency (ms)", title=MODELS[model])
    ax.grid(False, axis="x")
    return ax


def reductions(frame: Frame) -> Frame:
    """Share of the manual partition's overhead that the automatic one saves, by model and stages (2 and more)."""
    extra = frame[frame.part.isin(OVERHEADS) & (frame.stages > 1)]
    total = extra.groupby(["model", "stages", "partition"]).seconds.sum().unstack()
    return 1.0 - total["automatic"] / total["manual"]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; nothing in it is random, and fast is full."""
    session = Session("alpaserve/fig16", fast, out, seed)
    frame = session.table(overheads())
    with canvas(1, 2, width=3.6, height=3.0) as (figure, axes):
        for model, ax in zip(MODELS, axes.flat, strict=True):
            draw(frame, model, ax)
        outside_legend(figure, axes[0, 0], ncols=2)
        session.figure(figure)

    saved = reductions(frame)
    return session.finish(
        [
            EXPECTED["bert-1.3b"].judge(saved["bert-1.3b", 8]),
            EXPECTED["bert-2.6b"].judge(saved["bert-2.6b", 8]),
            EXPECTED["never worse"].judge(saved.min()),
        ],
        notes=[
            "operators and communication from the shipped V100 model: the embedding's and the head's share of the "
            "latency were fitted to other measurements of the authors (sequence length 1024), not to this figure"
        ],
    )


if __name__ == "__main__":
    main("alpaserve/fig16")
