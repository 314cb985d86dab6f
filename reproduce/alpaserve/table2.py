"""Table 2: SLO attainment of two placements as the authors' simulator and their real runs gave it, and as ours does.

The real-run counterpart on one's own machine is ``meshwright compare``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import planners, traces
from ...profiles import ModelProfile, ProfileSet, load
from ...profiles.alpaserve.shipped import with_artifact_overheads
from ...simulator import Cluster, simulate
from ..claims import Expectation, at_least, at_most
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import COLOURS, canvas, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER: Mapping[float, tuple[float, float, float, float]] = {
    0.5: (0.0, 0.0, 33.3, 33.3),
    1.0: (0.0, 0.0, 53.5, 53.2),
    1.5: (29.7, 30.2, 64.1, 64.7),
    2.0: (36.9, 36.8, 79.0, 80.6),
    3.0: (49.5, 48.5, 91.4, 92.1),
    4.0: (58.6, 57.8, 96.4, 96.5),
    5.0: (64.9, 64.0, 97.6, 97.9),
    10.0: (83.1, 82.6, 100.0, 99.7),
}
"""SLO scale -> attainment (%): Selective Replication real and simulated, AlpaServe real and simulated."""

SYSTEMS = {"Selective Replication": "selective-replication", "AlpaServe": "alpaserve"}
MODELS, DEVICES, RATE, CV, DURATION_S = 24, 16, 40.0, 4.0, 200.0
"""The paper does not print the case; these are the settings of the authors' public script for it
(alpa-projects/mms, gen_data_simulator_align.py): 24 × BERT-2.6B on 16 devices, 40 requests/s split by a power law with
exponent 0.5, CV 4, 200 s, a placement for each SLO scale."""
WARMUP_S = 10.0
"""Their statistics leave out this share of the requests at both ends."""
OPTIONS: Mapping[str, Mapping[str, int]] = {
    "selective-replication": {},
    "alpaserve": {"max_op": 4, "max_pp": 8, "polish": 0},
}
"""The search as their code has it: its limits, and no improving of the answer afterwards."""
PLANNED, REAL = "earliest_free", "shortest_queue"
"""Their simulator sends a request to the group whose last stage is free first; their real system, as §4.3 says, to the
one with the shortest queue. What is planned is planned with the former."""

EXPECTED = {
    "real": Expectation(
        "our simulator is within 2 points of the authors' real runs in every cell (largest difference)",
        "§6.1, Table 2",
        "< 2 points (theirs: 1.6)",
        at_most(2.0, partly=5.0),
        "{:.1f} points",
    ),
    "simulated": Expectation(
        "our simulator gives what theirs gave (largest difference)",
        "§6.1, Table 2",
        "0 points",
        at_most(0.5, partly=2.0),
        "{:.1f} points",
    ),
    "order": Expectation(
        "AlpaServe attains more than Selective Replication at every SLO scale (least difference)",
        "§6.1, Table 2",
        "> 0",
        at_least(0.1),
        "{:.1f} points",
    ),
}


def attainments(progress: Progress = quiet, options: Mapping[str, Mapping[str, Any]] = OPTIONS) -> Frame:
    """Simulate both placements at every SLO scale, on the authors' own arrivals, with their simulator's constants.

    Returns
    -------
    DataFrame
        Columns slo_scale, system, paper_real, paper_simulated, ours_real, ours (all in %; ours_real dispatches as the
        real system does, ours as their simulator), groups.
    """
    import pandas as pd

    bare = published(load("alpaserve-v100-table2").instances({"bert-2.6b": MODELS}))
    penalised = with_artifact_overheads(bare)
    overhead = penalised.overhead_s
    served = {"dispatch": PLANNED, "overhead": overhead}
    cluster = Cluster.of(DEVICES)
    rows = []
    for i, (scale, paper) in enumerate(PAPER.items()):
        progress(i, len(PAPER), f"SLO scale {scale:g}")
        trace = workload(bare, scale)
        for j, (system, planner) in enumerate(SYSTEMS.items()):
            plan = planners.PLANNERS[planner](
                cluster, None, trace, penalised, memory="max_stage", **served, **options[planner]
            )
            attained = {
                dispatch: 100.0
                * simulate(plan.placement, trace, penalised, dispatch=dispatch, overhead=overhead)
                .trim(WARMUP_S, by="requests")
                .attainment
                for dispatch in (REAL, PLANNED)
            }
            groups = getattr(plan.placement, "groups", ())
            rows.append(
                {
                    "slo_scale": scale,
                    "system": system,
                    "paper_real": paper[2 * j],
                    "paper_simulated": paper[2 * j + 1],
                    "ours_real": attained[REAL],
                    "ours": attained[PLANNED],
                    "groups": " ".join(f"{n}×{c}" for c, n in Counter(str(g.config) for g in groups).items()),
                }
            )
    progress(len(PAPER), len(PAPER), "")
    return pd.DataFrame(rows)


def published(profiles: ProfileSet) -> ProfileSet:
    """Only the configurations whose latencies come from the authors' published figures, not from a model of ours.

    The placements are then of configurations that the authors' planner knew as well as ours does.
    """
    models = {
        name: replace(p, stages={c: s for c, s in p.stages.items() if s.source.startswith("recovered")})
        for name, p in profiles.items()
    }
    return replace(profiles, models=models)


def workload(profiles: Mapping[str, ModelProfile], scale: float) -> traces.Trace:
    """The authors' arrivals of the case, with SLOs of `scale` times the latency on one device."""
    trace = traces.alpaserve_gamma(RATE, CV, DURATION_S, list(profiles), split={"power_law": 0.5})
    return trace.with_slo_scale(scale, profiles)


def draw(frame: Frame, ax: Axes) -> Axes:
    """Draw attainment over the SLO scale: the paper's real runs as rings, its simulator as crosses, ours as lines."""
    for system in SYSTEMS:
        part = frame[frame.system == system]
        colour = COLOURS[system]
        ax.plot(part.slo_scale, part.ours, color=colour, label=f"{system}, ours")
        ax.plot(
            part.slo_scale, part.paper_real, "o", color=colour, markersize=7, markerfacecolor="none",
            label=f"{system}, paper, real",
        )  # fmt: skip
        ax.plot(part.slo_scale, part.paper_simulated, "x", color=colour, label=f"{system}, paper, simulated")
    ax.set(xscale="log", xlabel="SLO scale (× latency on one device)", ylabel="SLO attainment (%)", ylim=(-3, 103))
    plain_ticks(ax, "x", tuple(PAPER))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table. The arrivals are the authors' own, so nothing depends on the seed, and fast is full."""
    session = Session("alpaserve/table2", fast, out, seed)
    frame = session.table(attainments(progress))
    with canvas(width=6.4, height=3.2) as (figure, axes):
        draw(frame, axes[0, 0])
        session.figure(figure)

    ours = frame.pivot(index="slo_scale", columns="system", values="ours")
    off = (frame.ours_real - frame.paper_real).abs()
    apart = (frame.ours - frame.paper_simulated).abs()
    found = _sensitivity(frame)
    theirs = (frame.paper_real - frame.paper_simulated).abs().max()
    same = (frame.ours - frame.paper_real).abs().max()
    return session.finish(
        [
            EXPECTED["real"].judge(off.max(), why=_where(frame.loc[off.idxmax()], "paper_real", "ours_real")),
            EXPECTED["simulated"].judge(
                apart.max(), why=f"{_where(frame.loc[apart.idxmax()], 'paper_simulated', 'ours')}; {found.needed}"
            ),
            EXPECTED["order"].judge((ours["AlpaServe"] - ours["Selective Replication"]).min()),
        ],
        notes=[
            "case, arrivals and constants as in the authors' public code; its profile of BERT-2.6B was recovered from "
            "this very table, so agreement checks the simulator and the planner's placements, not the profile",
            "against real runs requests go to the shortest queue, as there (§4.3); by their simulator's rule the "
            f"largest difference would be {same:.1f} points (theirs: {theirs:.1f})",
        ],
        sensitivity=[found],
    )


def _sensitivity(frame: Frame) -> Sensitivity:
    """How far from their simulator, with one choice of ours moved at a time."""

    def moved(planner: str, **options: Any) -> float:
        other = attainments(options={**OPTIONS, planner: {**OPTIONS[planner], **options}})
        return float((other.ours - other.paper_simulated).abs().max())

    ours = float((frame.ours - frame.paper_simulated).abs().max())
    queue = float((frame.ours_real - frame.paper_simulated).abs().max())
    polished = moved("alpaserve", polish=300)
    greedy = moved("selective-replication", selection="greedy")
    return Sensitivity(
        "largest difference from their simulator",
        0.0,
        ours,
        "points",
        (
            Swing("dispatch", "earliest free", "shortest queue", ours, queue),
            Swing("AlpaServe's answer", "as found", "300 moves more", ours, polished),
            Swing("Selective Replication selects", "by the heuristic", "by Algorithm 1", ours, greedy),
        ),
        "moved: dispatch, 300 moves more, Algorithm 1; none gives 0. At scale 3 Selective Replication has 48.5 % in "
        "their simulator, 49.5 % in their real run. "
        "With the authors' own order of choices (the group first, by requests sent to it; tried aside, November 2026) "
        f"ours is {AUTHORS_ORDER:.1f} % there",
    )


AUTHORS_ORDER = 49.8
"""Selective Replication at scale 3, %, where the group with the fewest requests sent to it chooses first."""


def _where(row: Frame, column: str, ours: str) -> str:
    return f"at scale {row.slo_scale:g}, {row.system} ({row.groups}): paper {row[column]:.1f} %, ours {row[ours]:.1f} %"


if __name__ == "__main__":
    main("alpaserve/table2")
