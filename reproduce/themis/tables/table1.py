"""Table 1 (Themis): what it costs a model to have its GPUs on two servers; and what is assumed of the others."""

from __future__ import annotations

from pathlib import Path

from ....simulator.sharing.workload.models import MODELS, TABLE1
from ...claims import Claim, Expectation, at_most, between
from ...figures import main
from ...report import Frame, Progress, Report, Session, quiet
from ...style import BLUE, GREY, canvas

EXPECTED = {
    "vgg": Expectation(
        "VGG16 prefers GPUs of one machine: images per second there over those across two servers", "§3.1.2, Table 1",
        "103.6 / 80.4", between(1.288, 1.289), "{:.4f}", kind="given",
    ),
    "inception": Expectation(
        "Inception-v3 does not: the slowdown that we count", "§3.1.2, Table 1", "242 / 243", at_most(1.0), "{:.2f}",
        kind="given",
    ),
}  # fmt: skip


def rows() -> Frame:
    """The table's rows, one for each model."""
    import pandas as pd

    made = []
    for m in MODELS.values():
        one, two = TABLE1.get(m.name, (float("nan"), float("nan")))
        made.append(
            {
                "model": m.name, "category": m.category, "parameters": m.parameters, "images_per_s_one_server": one,
                "images_per_s_two_servers": two, "across_machines": m.slowdown.rack,
                "across_racks": m.slowdown.cluster, "measured": m.measured, "network_intensive": m.network_intensive,
            }
        )  # fmt: skip
    return pd.DataFrame(made)


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    at = frame.set_index("model")
    vgg = at.loc["VGG16"]
    return [
        EXPECTED["vgg"].judge(float(vgg.images_per_s_one_server / vgg.images_per_s_two_servers)),
        EXPECTED["inception"].judge(float(at.across_machines["Inception-v3"])),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table; fast and full are the same. Nothing in it is random."""
    session = Session("themis/table1", fast, out, seed)
    frame = session.table(rows()).sort_values("parameters")
    with canvas(1, 1, width=4.4, height=2.8) as (figure, axes):
        ax = axes[0, 0]
        ax.barh(frame.model, frame.across_machines - 1, left=1, color=[BLUE if m else GREY for m in frame.measured])
        ax.set(xlabel="slowdown across machines (blue: measured)", xlim=(1, 1.7))
        session.figure(figure)
    return session.finish(judged(frame), notes=NOTES)


NOTES = (
    "slowdowns of models other than VGG16 and Inception-v3 are assumed: on the line through these two over parameters",
    "across racks the excess is three times that across machines, as in the paper's crude estimates",
)

if __name__ == "__main__":
    main("themis/table1")
