"""Figure 13: four models of 104 B parameters on 64 devices: AlpaServe and devices of its own for each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import planners
from ...profiles import ModelProfile, ParallelConfig, ProfileSet, model_set
from ...simulator import Cluster, Placement, simulate
from ..claims import Claim, Expectation, at_least, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREEN, GREY, ORANGE, PURPLE, canvas, outside_legend
from .experiments.largest_models import (
    DEVICES,
    RELEASED,
    SLO_SCALE,
    Answer,
    answer_of,
    memory,
    swings,
    workload,
)
from .experiments.planned import largest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VARIED: Mapping[str, tuple[float, ...]] = {
    "rate": (0.5, 2.0, 4.0, 6.0, 8.0),
    "cv": (1.0, 2.0, 3.0, 4.0),
    "slo": (0.5, 1.0, 2.0, 4.0, 6.0, 8.0),
}
LABELS = {"rate": "rate (requests/s)", "cv": "CV", "slo": "SLO scale"}

DEDICATED = {f"dedicated ({pp},{op})": ParallelConfig(op=op, pp=pp) for pp, op in ((16, 1), (8, 2), (4, 4), (2, 8))}
"""Inter-op, intra-op on 16 devices for each model, as the paper writes them."""
COLOURS = dict(zip(("AlpaServe", *DEDICATED), (BLUE, PURPLE, ORANGE, GREEN, GREY), strict=True))
EXPECTED = {
    "best": Expectation(
        "AlpaServe attains at least as much as the best dedicated configuration at every point (least lead)",
        "§6.3, Fig. 13",
        "≥ 0",
        at_least(-0.5, partly=-2.0),
        "{:+.1f} points",
    ),
    "gap": Expectation(
        "there is a substantial gap to the best of them (largest lead)",
        "§6.3, Fig. 13",
        "substantial",
        at_least(10.0, partly=3.0),
        "{:+.1f} points",
    ),
    "winner": Expectation(
        "the solution is two groups with (4,8) inter-/intra-op parallelism (groups of that kind at the default)",
        "§6.3",
        "2 of 2",
        between(2, 2, partly=(1, 2)),
        "{:.0f}",
    ),
    "near": Expectation(
        "and if it is not: what the best selection on two such groups falls short of ours by, at the default",
        "§6.3",
        "0",
        at_most(0.5, partly=2.0),
        "{:.2f} points",
    ),
    "planned best": Expectation(
        "planned latencies: AlpaServe attains at least as much as the best dedicated configuration (least lead)",
        "§6.3, Fig. 13",
        "≥ 0",
        at_least(-0.5, partly=-2.0),
        "{:+.1f} points",
    ),
    "planned gap": Expectation(
        "planned latencies: there is a substantial gap to the best of them (largest lead)",
        "§6.3, Fig. 13",
        "substantial",
        at_least(10.0, partly=3.0),
        "{:+.1f} points",
    ),
    "planned winner": Expectation(
        "planned latencies: the solution is two groups with (4,8) (groups of that kind at the default)",
        "§6.3",
        "2 of 2",
        between(2, 2, partly=(1, 2)),
        "{:.0f}",
    ),
}


def attainments(
    duration: float,
    repetitions: int,
    seed: int,
    varied: Mapping[str, Sequence[float]] = VARIED,
    progress: Progress = quiet,
    profiles: ProfileSet | None = None,
) -> Frame:
    """Simulate all systems with one setting varied at a time, on the same arrivals; with the shipped profile of S4
    unless another is given.

    Returns
    -------
    DataFrame
        Columns varied, x, system, attainment (mean over repetitions), placement.
    """
    import pandas as pd

    profiles = profiles or model_set("S4")
    rows = []
    points = [(name, x) for name, values in varied.items() for x in values]
    for i, (name, x) in enumerate(points):
        progress(i, len(points), f"{name} {x:g}")
        for r in range(repetitions):
            trace = workload(profiles, duration, seed + r, **{name: x})
            plan = planners.alpaserve.plan(Cluster.of(DEVICES), None, trace, profiles)
            systems = {"AlpaServe": plan.placement} | {s: dedicated(c, profiles) for s, c in DEDICATED.items()}
            rows += [
                {
                    "varied": name,
                    "x": x,
                    "system": system,
                    "repetition": r,
                    "attainment": simulate(placed, trace, profiles).attainment,
                    "placement": " ".join(str(g.config) for g in placed.groups),
                }
                for system, placed in systems.items()
            ]
    progress(len(points), len(points), "")
    return pd.DataFrame(rows)


def dedicated(config: ParallelConfig, profiles: Mapping[str, ModelProfile]) -> Placement:
    """Give each model sixteen devices of its own."""
    from ...simulator import Group

    return Placement(Group(config, [name]) for name in profiles)


def draw(frame: Frame, varied: str, ax: Axes) -> Axes:
    """Draw one panel."""
    part = frame[frame.varied == varied].groupby(["x", "system"], sort=False).attainment.mean().unstack()
    for system, colour in COLOURS.items():
        ax.plot(
            part.index, 100 * part[system], color=colour, label=system, marker="o" if system == "AlpaServe" else "s",
            linestyle="-" if system == "AlpaServe" else "--",
        )  # fmt: skip
    ax.set(xlabel=LABELS[varied], ylabel="SLO attainment (%)", ylim=(-3, 103))
    return ax


def lead_of(frame: Frame) -> Any:
    """AlpaServe's lead over the best dedicated configuration, percentage points, by what is varied."""
    mean = frame.groupby(["varied", "x", "system"]).attainment.mean().unstack()
    return 100 * (mean["AlpaServe"] - mean[list(DEDICATED)].max(axis=1))


def judged(frame: Frame, answer: Answer, prefix: str = "", released: Answer | None = None) -> list[Claim]:
    """The claims that both profiles are held against; `released`: what the search of the authors' code answers."""
    lead = lead_of(frame)
    found = f"ours, with {answer.attainment:.1%}, is {_shown(answer)}"
    if released is not None:
        found += (
            f"; searched as far as the authors' released code does (op up to {RELEASED['max_op']}, pp up to "
            f"{RELEASED['max_pp']}) it is {_shown(released)}, {released.attainment:.1%}. It never tries op 8, and it "
            "writes configurations as (dp, op, pp), so that groups of eight stages with op 4 read (4,8) there"
        )
    return [
        EXPECTED[f"{prefix}best"].judge(lead.min(), why=f"at {lead.idxmin()[0]} {lead.idxmin()[1]:g}"),
        EXPECTED[f"{prefix}gap"].judge(
            lead.max(), shown=f"{lead.max():+.1f} points ({lead.idxmax()[0]} {lead.idxmax()[1]:g})",
            why="" if prefix else WHY_GAP,
        ),
        EXPECTED[f"{prefix}winner"].judge(answer.winners, why=found),
    ]  # fmt: skip


def _shown(answer: Answer) -> str:
    return str(answer.placement).replace("\n", "; ")


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: 5 traces of 1,200 s per point (the paper ran 1,200 s once); fast: 1 of 600 s."""
    session = Session("alpaserve/fig13", fast, out, seed)
    duration, repetitions = (600.0, 1) if fast else (1200.0, 5)
    sets = {"fitted latencies": model_set("S4"), "planned latencies": largest()}
    frames: dict[str, Frame] = {}
    answers: dict[str, Answer] = {}
    for name, profiles in sets.items():
        suffix = "" if name == "fitted latencies" else "-planned"
        found = attainments(duration, repetitions, seed, progress=progress, profiles=profiles)
        frames[name] = session.table(found, suffix)
        answers[name] = answer_of(duration, seed, profiles)
    with canvas(2, 3, width=3.0, height=2.7) as (figure, axes):
        for row, (name, frame) in zip(axes, frames.items(), strict=True):
            for varied, ax in zip(VARIED, row, strict=True):
                draw(frame, varied, ax)
                ax.set_title(name)
        outside_legend(figure, axes[0, 0], ncols=5)
        session.figure(figure)

    fitted, planned = answers.values()
    released = {name: answer_of(duration, seed, profiles, limits=RELEASED) for name, profiles in sets.items()}
    best = judged(frames["fitted latencies"], fitted, released=released["fitted latencies"])
    near = EXPECTED["near"].judge(
        fitted.short,
        shown=f"{fitted.attainment:.1%} against {fitted.two_groups:.1%}",
        why=memory(sets["fitted latencies"]),
    )
    return session.finish(
        [*best, near, *judged(frames["planned latencies"], planned, "planned ", released["planned latencies"])],
        notes=[
            f"default SLO scale {SLO_SCALE:g} and grids: the authors' artifact; the paper's figure is from real runs",
            "fitted: BERT-104B is modelled beyond Table 1's one latency (docs/profiles.md); planned: by "
            "planners.alpa.inference on V100's data sheet, operators scaled so that op1pp16 takes that one latency",
            f"planned: two groups of (4,8) attain {planned.two_groups:.1%} of {planned.attainment:.1%}; "
            f"{memory(sets['planned latencies'])}",
        ],
        sensitivity=[swings(duration, seed, sets["planned latencies"])],
    )


WHY_GAP = "BERT-104B's latencies are modelled: Table 1 gives one figure, for the least-split pipeline"


if __name__ == "__main__":
    main("alpaserve/fig13")
