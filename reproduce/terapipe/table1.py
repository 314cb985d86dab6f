"""Table 1 (TeraPipe; thesis 2.1): the models and how they are cut."""

from __future__ import annotations

from pathlib import Path

from ...planners.terapipe.v100.cell import NODE
from ..claims import Claim, Expectation, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREY, canvas, plain_ticks
from .tables import SETTINGS

PRINTED = {
    "GPT3-1B": (1e9, 192), "GPT3-13B": (13e9, 320), "GPT3-44B": (44e9, 384), "GPT3-175B": (175e9, 384),
}  # fmt: skip
"""Model -> parameters and GPUs, as printed."""
WORDS = 50257

EXPECTED = {
    "gpus": Expectation(
        "settings whose replicas times stages times GPUs of a layer are the GPUs printed", "Table 1", "10 of 10",
        between(10, 10), "{:.0f} of 10", kind="identity",
    ),
    "params": Expectation(
        "models whose parameters, embeddings of GPT-3's 50,257 words and 2048 positions included, are those printed, "
        "rounded to billions", "Table 1", "4 of 4", between(4, 4, partly=(3, 4)), "{:.0f} of 4", kind="identity",
    ),
    "layers": Expectation(
        "settings whose stages have equally many layers and whose layers' GPUs are within a node (§2.5)", "Table 1",
        "10 of 10", between(10, 10), "{:.0f} of 10", kind="identity",
    ),
}  # fmt: skip


def rows() -> Frame:
    """The rows of the table, and what follows from them."""
    import pandas as pd

    made = []
    for k, s in SETTINGS.items():
        x = s.layout
        params, gpus = PRINTED[s.model]
        made.append(
            {
                "setting": k, "model": s.model, "N": x.layers, "H": x.hidden, "L": 2048, "batch": s.batch,
                "data": x.data, "pipe": x.pipe, "op": x.op, "gpus": s.gpus, "gpus_printed": gpus,
                "params": (12 * x.layers * x.hidden + WORDS + 2048) * x.hidden, "params_printed": params,
                "layers_per_stage": x.layers / x.pipe, "sequences_per_replica": s.batch / x.data,
                "nodes": s.gpus / NODE,
            }
        )  # fmt: skip
    return pd.DataFrame(made)


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    models = frame.drop_duplicates("model")
    alike = (models.params / 1e9).round() == models.params_printed / 1e9
    whole = (frame.layers_per_stage % 1 == 0) & (frame.sequences_per_replica % 1 == 0) & (frame.op <= NODE)
    return [
        EXPECTED["gpus"].judge(float((frame.gpus == frame.gpus_printed).sum())),
        EXPECTED["params"].judge(
            float(alike.sum()), shown=f"{alike.sum()} of 4 ({', '.join(f'{x / 1e9:.2f}B' for x in models.params)})"
        ),
        EXPECTED["layers"].judge(float(whole.sum())),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table; fast and full are the same. Nothing in it is random."""
    session = Session("terapipe/table1", fast, out, seed)
    frame = session.table(rows())
    with canvas(1, 1, width=4.6, height=2.4) as (figure, axes):
        ax, at = axes[0, 0], range(len(frame))
        ax.bar(at, frame.sequences_per_replica, 0.6, color=BLUE, label="sequences of a replica")
        ax.plot(at, frame["pipe"], "o", color=GREY, label="stages of its pipeline")
        ax.set_xticks(list(at), [f"({k})" for k in frame.setting])
        ax.set(ylabel="number", yscale="log", ylim=(1, 200), xlabel="setting")
        plain_ticks(ax, "y", (1, 2, 5, 10, 20, 50, 100))
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=7)
        session.figure(figure)
    return session.finish(judged(frame), notes=NOTES)


NOTES = ("TeraPipe's published program trains the layers alone, and so do our latencies, without the embeddings",)

if __name__ == "__main__":
    main("terapipe/table1")
