"""Table 2 (Themis): an example of a table of bids."""

from __future__ import annotations

from pathlib import Path

from ....simulator.sharing import App, AppView, Shape, SharedCluster, Slowdown
from ....simulator.sharing.policy.split import RunningJob
from ...claims import Claim, Expectation, between
from ...figures import main
from ...report import Frame, Progress, Report, Session, quiet
from ...style import BLUE, canvas

EXPECTED = {
    "one": Expectation("ρ with either GPU", "Table 2", "200/400", between(0.5, 0.5), "{:g}", kind="identity"),
    "two": Expectation("ρ with both", "Table 2", "100/400", between(0.25, 0.25), "{:g}", kind="identity"),
    "same": Expectation(
        "[0,1] and [1,0] are worth the same: difference of their ρ", "Table 2", "0", between(0, 0), "{:g}",
        kind="identity",
    ),
}  # fmt: skip


def rows() -> Frame:
    """The table, by an agent: T_id is 400 s and one GPU takes 200 s, so 4 apps share 2 GPUs."""
    import pandas as pd

    cluster = SharedCluster.uniform(1, 2)
    app = App.single("app", 0.0, 200.0, gpus=2, slowdown=Slowdown())
    view = AppView(0, app, 0.0, 0, (RunningJob(0, 200.0, 2, 1),), (), (), 0.0, 4.0, cluster.n_gpus)
    made = []
    for gpus in ((), (1,), (0,), (0, 1)):
        rho = view.rho(Shape.of(cluster, gpus))
        allocation = str([int(g in gpus) for g in range(2)])
        made.append({"allocation": allocation, "gpus": len(gpus), "rho": rho, "shared_s": rho * view.ideal_s})
    return pd.DataFrame(made)


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    rho = frame.set_index("allocation").rho
    return [
        EXPECTED["one"].judge(float(rho["[1, 0]"])),
        EXPECTED["two"].judge(float(rho["[1, 1]"])),
        EXPECTED["same"].judge(float(rho["[0, 1]"] - rho["[1, 0]"])),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table; fast and full are the same. Nothing in it is random."""
    session = Session("themis/table2", fast, out, seed)
    frame = session.table(rows())
    with canvas(1, 1, height=1.8) as (figure, axes):
        shown = frame[frame.gpus > 0]
        axes[0, 0].bar(shown.allocation, shown.rho, color=BLUE, width=0.6)
        axes[0, 0].set(xlabel="allocation of two GPUs", ylabel="ρ", ylim=(0, 0.6))
        session.figure(figure)
    return session.finish(
        judged(frame), notes=("with no GPU our ρ is infinite: the table's ρ_old is that of GPUs held",)
    )


if __name__ == "__main__":
    main("themis/table2")
