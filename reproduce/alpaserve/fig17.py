"""Figure 17: what the placement algorithm's parts are worth: round robin, greedy placement, group partitioning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ... import planners, traces
from ...profiles import model_set
from ...simulator import Cluster, simulate
from ..claims import Claim, Expectation, at_least, at_most, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import BLACK, canvas, lines, outside_legend
from .experiments.systems import GOAL, crossing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEVICES, RATE, CV, SLO_SCALE, SPLIT = 32, 64.0, 4.0, 5.0, {"power_law": 0.5}
"""The paper does not print the case; these are the defaults of the authors' script for it (alpa-projects/mms,
osdi23_artifact/gen_data_sec6_5_ab.sh: synthetic, mixed)."""
VARIED: Mapping[str, tuple[float, ...]] = {
    "rate": (2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0),
    "cv": (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0),
}
LABELS = {"rate": "rate (requests/s)", "cv": "CV"}
ROUND_ROBIN, GREEDY, PARTITIONED = "Round robin", "Greedy placement", "Greedy placement + group partitioning"
SYSTEMS = {ROUND_ROBIN: "round-robin", GREEDY: "greedy-no-partition", PARTITIONED: "alpaserve"}
OPTIONS: Mapping[str, Mapping[str, object]] = {ROUND_ROBIN: {}, GREEDY: {}, PARTITIONED: {"polish": 0}}
"""As the authors' code has them: both select by the one-simulation heuristic, neither improves its answer later."""
FAST: Mapping[str, tuple[float, ...]] = {"rate": (4.0, 8.0, 16.0, 24.0, 40.0), "cv": (1.0, 2.0, 3.0, 5.0)}
DRAWS = 3
"""Attainments are means over so many draws, each planned by itself: near 99 % one draw decides little."""

EXPECTED = {
    "rate": Expectation(
        "group partitioning raises the rate that 99 % bears, over greedy placement alone",
        "§6.6, Fig. 17 left",
        "1.5×",
        within(1.5, 0.3, partly=0.6, beyond="above"),
        "{:.2f}×",
    ),
    "cv": Expectation(
        "and the CV",
        "§6.6, Fig. 17 right",
        "1.3×",
        within(1.3, 0.3, partly=0.6, beyond="above"),
        "{:.2f}×",
    ),
    "round robin": Expectation(
        "round robin never reaches 99 % (its best attainment over all rates)",
        "§6.6, Fig. 17 left",
        "< 99 %",
        at_most(0.9899),
        "{:.1%}",
    ),
    "order": Expectation(
        "each part helps: partitioned ≥ greedy ≥ round robin (least difference of neighbours)",
        "§6.6, Fig. 17",
        "≥ 0",
        at_least(-0.5, partly=-2.0),
        "{:+.1f} points",
    ),
    "heuristic": Expectation(
        "the one-simulation heuristic attains at least 98 % of what Algorithm 1 does (least ratio over cases)",
        "§4.2",
        "98 %",
        at_least(0.98, partly=0.95),
        "{:.1%}",
    ),
}


def attainments(
    duration: float, seed: int, varied: Mapping[str, Sequence[float]] = VARIED, max_splits: int = 100,
    progress: Progress = quiet, options: Mapping[str, Mapping[str, object]] = OPTIONS,
) -> Frame:  # fmt: skip
    """Simulate variants with the rate or the CV varied, on the same random numbers; `options` says which and how.

    Returns
    -------
    DataFrame
        Columns varied, x, system, draw (the seed), attainment.
    """
    import pandas as pd

    profiles = model_set("S3")
    rows = []
    points = [(name, x) for name, values in varied.items() for x in values]
    for i, (name, x) in enumerate(points):
        progress(i, len(points), f"{name} {x:g}")
        value = {"rate": RATE, "cv": CV} | {name: x}
        trace = traces.gamma(value["rate"], value["cv"], duration, list(profiles), split=SPLIT, seed=seed)
        trace = trace.with_slo_scale(SLO_SCALE, profiles)
        for system, chosen in options.items():
            more = {"max_splits": max_splits} if system == PARTITIONED else {}
            plan = planners.PLANNERS[SYSTEMS[system]](Cluster.of(DEVICES), None, trace, profiles, **chosen, **more)
            attained = simulate(plan.placement, trace, profiles).attainment
            rows.append({"varied": name, "x": x, "system": system, "draw": seed, "attainment": attained})
    progress(len(points), len(points), "")
    return pd.DataFrame(rows)


def heuristic(duration: float, seed: int, rates: Sequence[float] = (8.0, 16.0, 24.0)) -> Frame:
    """Compare the fast heuristic with Algorithm 1 on a small case (S1's first 12 models, 8 devices, 4-stage pipelines).

    Returns
    -------
    DataFrame
        Columns rate_per_s, config, fast, greedy, ratio.
    """
    import pandas as pd

    every = model_set("S1")
    names = list(every)[:12]
    rows = []
    for rate in rates:
        trace = traces.gamma(rate, CV, duration, names, split=SPLIT, seed=seed).with_slo_scale(SLO_SCALE, every)
        for config in ("op1pp1", "op1pp4"):
            attained = {}
            for selection in ("fast", "greedy"):
                plan = planners.greedy_no_partition(
                    Cluster.of(8), None, trace, every, config=config, selection=selection
                )
                attained[selection] = simulate(plan.placement, trace, every).attainment
            row = {"rate_per_s": rate, "config": config}
            rows.append(row | attained | {"ratio": attained["fast"] / attained["greedy"]})
    return pd.DataFrame(rows)


def draw(frame: Frame, varied: str, ax: Axes) -> Axes:
    """Draw one panel."""
    part = frame[frame.varied == varied].copy()
    part["attainment"] *= 100
    lines(part, ax, x="x", y="attainment", order=tuple(SYSTEMS))
    ax.axhline(100 * GOAL, color=BLACK, linewidth=0.8, linestyle=":")
    ax.set(xlabel=LABELS[varied], ylabel="SLO attainment (%)")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: 200 s of traffic as in the artifact, all points; fast: 60 s, half of them; 3 draws."""
    import pandas as pd

    session = Session("alpaserve/fig17", fast, out, seed)
    varied = FAST if fast else VARIED
    duration, splits = (60.0, 2) if fast else (200.0, 30)
    drawn = [attainments(duration, seed + k, varied, splits, progress) for k in range(DRAWS)]
    every = session.table(pd.concat(drawn))
    frame = mean_of(every)
    selections = session.table(heuristic(30.0 if fast else 300.0, seed), "-heuristic")
    with canvas(1, 2, width=3.6, height=2.9) as (figure, axes):
        for name, ax in zip(VARIED, axes.flat, strict=True):
            draw(frame, name, ax)
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    wide = frame.pivot(index=["varied", "x"], columns="system", values="attainment")
    reach = reached(frame)
    found = sensitivity(every, duration, varied, splits, polished=not fast)
    steps = [wide[PARTITIONED] - wide[GREEDY], wide[GREEDY] - wide[ROUND_ROBIN]]
    return session.finish(
        [
            *(_gain(name, reach, varied[name][0], found.needed) for name in VARIED),
            EXPECTED["round robin"].judge(wide.loc["rate"][ROUND_ROBIN].max(), why=WHY_ROUND_ROBIN),
            EXPECTED["order"].judge(100 * min(step.min() for step in steps), why=WHY_ORDER),
            EXPECTED["heuristic"].judge(selections.ratio.min()),
        ],
        notes=[
            "case and grids: the authors' artifact (32 devices, 60 models, 64/s, CV 4, SLO scale 5); ours simulated",
            "greedy placement and group partitioning as the authors' code has them: the one-simulation heuristic on "
            "4-stage pipelines, and on every partition, without improving the answer afterwards",
        ],
        sensitivity=[found],
    )


def mean_of(frame: Frame) -> Frame:
    """Mean attainment over draws."""
    return frame.groupby(["varied", "x", "system"], as_index=False).attainment.mean()


Reach = Mapping[tuple[str, str], float]


def reached(frame: Frame) -> dict[tuple[str, str], float]:
    """(what is varied, system) -> where it crosses 99 %; NaN where it never gets there."""
    return {
        (name, system): crossing(part.x.to_list(), part.attainment.to_list(), rising=False)
        for (name, system), part in frame.sort_values("x").groupby(["varied", "system"])
    }


def gain(reach: Reach, name: str, least: float) -> float:
    """What partitioning adds; `least`, where the curve begins, stands for greedy if it is never there."""
    greedy = reach[name, GREEDY]
    return reach[name, PARTITIONED] / (least if math.isnan(greedy) else greedy)


def _gain(name: str, reach: Reach, least: float, needed: str) -> Claim:
    missed = math.isnan(reach[name, GREEDY])
    other = f"< {least:g}" if missed else f"{reach[name, GREEDY]:.3g}"
    value = gain(reach, name, least)
    shown = f"{'≥ ' if missed else ''}{value:.2f}× ({reach[name, PARTITIONED]:.3g} against {other})"
    return EXPECTED[name].judge(value, shown=shown, why=f"{WHY}; {needed}")


def sensitivity(
    frame: Frame, duration: float, varied: Mapping[str, Sequence[float]], splits: int, *, polished: bool
) -> Sensitivity:
    """The gain in rate by how models are selected, by the draw, and, if `polished`, by improving the answer afterwards.

    The last plans everything again, and moves least: the fast version leaves it out.
    """
    import pandas as pd

    rates, least = {"rate": varied["rate"]}, varied["rate"][0]
    mine = frame[frame.varied == "rate"]

    def moved(options: Mapping[str, Mapping[str, object]]) -> float:
        new = [attainments(duration, draw, rates, splits, options=options) for draw in sorted(set(mine.draw))]
        kept = mine[~mine.system.isin(tuple(options))]
        return gain(reached(mean_of(pd.concat([kept, *new]))), "rate", least)

    ours = gain(reached(mean_of(frame)), "rate", least)
    algorithm1 = moved({GREEDY: {"selection": "greedy"}})
    draws = [gain(reached(part), "rate", least) for _, part in mine.groupby("draw")]
    swings = [
        Swing("greedy selects by the heuristic", "by Algorithm 1", "as it is", algorithm1, ours),
        Swing(f"mean of {len(draws)} draws", "least", "most", min(draws), max(draws)),
    ]
    if polished:
        more = moved({PARTITIONED: {"polish": 300}})
        swings.append(Swing("partitions' answer as found", "as it is", "300 moves more", ours, more))
    needed = (
        f"with greedy placement by Algorithm 1 (the paper's text) and not by the heuristic (its code) it is "
        f"{algorithm1:.2f}×; single draws have {min(draws):.2f}× to {max(draws):.2f}×"
    )
    return Sensitivity("rate at 99 %, partitioned over greedy", 1.5, ours, "×", tuple(swings), needed)


WHY = (
    "near 99 % greedy placement's curve is nearly flat, so where it crosses is ill-conditioned; the paper reads its "
    "grid's points (24 over 16, 96 over 64)"
)
WHY_ROUND_ROBIN = "with few requests even models dealt out blindly are served in time"
WHY_ORDER = "a search over the same trace can only gain, but two heuristics need not be ordered at every point"


if __name__ == "__main__":
    main("alpaserve/fig17")
