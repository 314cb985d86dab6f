"""Table 4 (Themis): models of the traces and their shares."""

from __future__ import annotations

from pathlib import Path

from ....simulator.sharing import MODELS, WorkloadOptions, workload1
from ....simulator.sharing.workload.models import MIX
from ...claims import Claim, Expectation, between
from ...figures import main
from ...report import Frame, Progress, Report, Session, quiet
from ...style import BLUE, GREY, canvas
from ..experiments.workloads import NOTES

PRINTED = {"CV": 5, "NLP": 4, "Speech": 2}
EXPECTED = {
    **{
        category: Expectation(
            f"share of {category} apps among the 85, to an app (given: so they are drawn)", "§6.1, Table 4",
            f"{share:.0%}", between(share - 1 / 85, share + 1 / 85), "{:.1%}", kind="given",
        )
        for category, share in MIX.items()
    },
    "models": Expectation(
        "categories with as many models as printed", "Table 4", "3 of 3", between(3, 3), "{:.0f} of 3", kind="given"
    ),
}  # fmt: skip


def rows(seed: int) -> Frame:
    """Apps of each model in one draw."""
    import pandas as pd

    drawn = [a.model for a in workload1(WorkloadOptions(seed=seed))]
    return pd.DataFrame(
        {"category": m.category, "model": m.name, "dataset": m.dataset, "apps": drawn.count(m.name)}
        for m in MODELS.values()
    )


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    total = int(frame.apps.sum())
    by = frame.groupby("category")
    made = [EXPECTED[c].judge(float(by.apps.sum()[c] / total)) for c in MIX]
    same = sum(int(by.model.nunique()[c]) == n for c, n in PRINTED.items())
    return [*made, EXPECTED["models"].judge(float(same))]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table; fast and full are the same."""
    session = Session("themis/table4", fast, out, seed)
    frame = session.table(rows(seed))
    with canvas(1, 1, width=4.4, height=2.8) as (figure, axes):
        axes[0, 0].barh(frame.model, frame.apps, color=[GREY if c == "NLP" else BLUE for c in frame.category])
        axes[0, 0].set(xlabel="apps of 85 (grey: NLP)")
        axes[0, 0].invert_yaxis()
        session.figure(figure)
    return session.finish(judged(frame), notes=(*NOTES, "within a category every model has the same chance"))


if __name__ == "__main__":
    main("themis/table4")
