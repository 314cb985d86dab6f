"""Figure 18 (Themis): one of eight apps lies about its slowdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...planners.themis import Themis
from ...planners.themis.lying import Lie, lying_experiment, tipping_point
from ..claims import Claim, Expectation, at_least, at_most, between
from ..figures import main
from ..report import Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import BLUE, VERMILLION, canvas, outside_legend

MECHANISMS = {
    "all bid, payments idle": {"fairness": 0.0, "leftovers": "idle"},
    "f = 0.8, leftovers given away": {"fairness": 0.8, "leftovers": "participants"},
}
"""First where payments are felt most, then as everywhere else."""

EXPECTED = {
    (key, name): Expectation(f"{name}: {text}", where, paper, rule, form)
    for name in MECHANISMS
    for key, text, where, paper, rule, form in (
        (
            "gain", "the liar's completion time over that of the truth, the least of all X (lying does not pay)",
            "§6.3, Fig. 18", "at least 1", at_least(0.99, partly=0.95), "{:.3f}",
        ),
        (
            "others",
            "the truthful apps' mean completion time at the largest X over that without a lie (they do better)",
            "§6.3", "below 1 (1 % is asked)", at_most(0.99, partly=0.999), "{:.3f}",
        ),
        (
            "tipping", "X from which on the liar loses more than 5 %", "§6.3, Fig. 18", "34 %",
            between(29, 39, partly=(10, 60)), "{:.0f} %",
        ),
    )
}  # fmt: skip

WHY = (
    "tested by changing them (sensitivity): the apps' slowdown S and how many GPUs they can use are not printed. With "
    "16 GPUs a liar tips where S·(1 + X) > 2, at 54 % for S = 1.3; S = 1.5 gives the paper's 34 %. With 8, as many as "
    "there are, nobody can take what the liar loses. Where all bid (f = 0) all pay so much that everything is noise"
)

MINE, SLOWDOWN, GPUS = tuple(MECHANISMS)[1], 1.3, 16
"""As everywhere else in the figures; guesses."""

MOVES = (
    ("slowdown across machines, 1.3", "1.1", {"slowdown": 1.1}, "1.5", {"slowdown": 1.5}),
    ("GPUs that an app can use, 16", "8", {"gpus": 8}, "16", {}),
)


def judged(lies: dict[str, tuple[Lie, ...]]) -> list[Claim]:
    """Judge the first two claims for both mechanisms, and the tipping point for each mechanism by its own rule."""
    made: list[Claim] = []
    for name, found in lies.items():
        truth, best, tip = found[0], min(found, key=lambda x: x.liar_s), tipping_point(found)
        gain, others = best.liar_s / truth.liar_s, found[-1].others_s / truth.others_s
        said = "none" if tip is None else f"{tip:g} %"
        made += [
            EXPECTED["gain", name].judge(gain, shown=f"{gain:.3f} at {best.percent:g} %", why=WHY),
            EXPECTED["others", name].judge(others, shown=f"{others:.3f}", why=WHY),
            EXPECTED["tipping", name].judge(math.nan if tip is None else tip, shown=said, why=WHY),
        ]
    return made


def experiment(
    name: str, percents: Sequence[float], seeds: int, slowdown: float = SLOWDOWN, gpus: int = GPUS
) -> tuple[Lie, ...]:
    """Run the experiment under one of the mechanisms."""
    policy = Themis(**MECHANISMS[name])  # type: ignore[arg-type]
    return lying_experiment(percents, policy=policy, seeds=seeds, slowdown=slowdown, hours=20.0, gpus=gpus)


def sensitivity(seeds: int) -> Sensitivity:
    """Where lying tips, in steps of 2 %, as what is not printed moves; NaN where it does not tip up to 100 %."""
    percents = tuple(float(x) for x in range(0, 101, 2))

    def tips(**moved: float) -> float:
        tip = tipping_point(experiment(MINE, percents, seeds, **moved))  # type: ignore[arg-type]
        return math.nan if tip is None else tip

    swings = tuple(Swing(text, low, high, tips(**less), tips(**more)) for text, low, less, high, more in MOVES)
    return Sensitivity(
        f"where lying tips, {MINE}", 34.0, tips(), "% (X)", swings,
        "a slowdown of 2/1.34 = 1.49 with 16 GPUs: above S·(1 + X) = 2 a liar prefers 8 GPUs of a machine to 16 apart",
    )  # fmt: skip


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: steps of 20 % and two seeds instead of 5 % and five."""
    import pandas as pd

    session = Session("themis/fig18", fast, out, seed)
    percents, seeds = (range(0, 101, 20), 2) if fast else (range(0, 101, 5), 5)
    rows: list[dict[str, Any]] = []
    found: dict[float, dict[str, tuple[Lie, ...]]] = {}
    slowdowns = (1.3,) if fast else (1.1, 1.3, 1.5)
    for k, slowdown in enumerate(slowdowns):
        progress(k, len(slowdowns), f"slowdown {slowdown}")
        found[slowdown] = {name: experiment(name, tuple(percents), seeds, slowdown) for name in MECHANISMS}
        rows += [
            {
                "slowdown": slowdown, "mechanism": name, "percent": lie.percent, "liar_s": lie.liar_s,
                "others_s": lie.others_s, "liar_gpu_s": lie.liar_gpu_s,
            }
            for name, lies in found[slowdown].items()
            for lie in lies
        ]  # fmt: skip
    progress(len(slowdowns), len(slowdowns), "")
    session.table(pd.DataFrame(rows))
    with canvas(1, 2, width=3.2, height=2.6, sharey=True) as (figure, axes):
        for ax, (name, lies) in zip(axes[0], found[1.3].items(), strict=True):
            x = [lie.percent for lie in lies]
            ax.plot(x, [lie.liar_s / 3600 for lie in lies], color=VERMILLION, marker="o", label="liar")
            ax.plot(x, [lie.others_s / 3600 for lie in lies], color=BLUE, marker="s", label="truthful, mean")
            ax.set(xlabel="X (%)", title=name)
        axes[0, 0].set_ylabel("completion time (h)")
        outside_legend(figure, axes[0, 0])
        session.figure(figure)
    tips = {s: [tipping_point(lies) for lies in each.values()] for s, each in found.items()}
    said = {s: " and ".join("none" if t is None else f"{t:g} %" for t in row) for s, row in tips.items()}
    listed = "; ".join(f"S = {s:g}: {text}" for s, text in said.items())
    notes = (
        "one machine of 8 GPUs and 28 of 2 in one rack; eight apps of one job for 16 GPUs and 20 GPU hours, S = 1.3 "
        f"across machines; one overstates S by X. Tipping points (first {' / '.join(MECHANISMS)}): {listed}",
    )
    more = (sensitivity(1 if fast else 3),)
    return session.finish(judged(found[1.3]), notes=notes, sensitivity=more)


if __name__ == "__main__":
    main("themis/fig18")
