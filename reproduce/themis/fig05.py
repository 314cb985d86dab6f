"""Figure 5 (Themis): two instances in which it matters where GPUs are, and what the policies do in them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

from ...planners.themis import Themis
from ...simulator.sharing import (
    MODELS,
    App,
    AppView,
    Machine,
    Policy,
    Shape,
    SharedCluster,
    SharingWorld,
    baseline,
    simulate,
)
from ...simulator.sharing.policy.split import RunningJob, rate
from ..claims import Claim, Expectation, at_least, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, VERMILLION, canvas

WORK_S = 4 * 3600.0
"""An hour on four GPUs of one machine. The figure has no times; only ratios are judged."""

INSTANCES = {
    "1": (SharedCluster.uniform(2, 4, machines_per_rack=2), ("VGG16", "VGG16")),
    "2": (SharedCluster((Machine(4), Machine(2), Machine(2))), ("Inception-v3", "VGG16")),
}
"""Machines, and the models of A1 and A2: one job of four tasks each."""

DRAWN = {"1": ((0, 1, 4, 5), (2, 3, 6, 7)), "2": ((0, 1, 2, 3), (4, 5, 6, 7))}
"""GPUs of A1 and A2 in the figure."""

POLICIES = ("drf", "tiresias", "gandiva", "optimus", "srsf", "themis")

EXPECTED = {
    "incentive": Expectation(
        "instance 1, as drawn: an app's time over that on a server of its own (sharing incentive: at most 1)",
        "§3.1.2, Fig. 5", "violated", at_least(1.01), "{:.3f}", kind="identity",
    ),
    "agent": Expectation(
        "instance 1, as drawn: ρ by the agent's own T_id (§4.3.1) says so too", "§3.1.2, §4.3.1", "above 1",
        at_least(1.01), "{:.3f}",
    ),
    "envy": Expectation(
        "instance 2, as drawn: VGG16's time on the other app's GPUs over that on its own (envy: below 1)",
        "§3.1.2, Fig. 5", "violated", at_most(0.99), "{:.3f}", kind="identity",
    ),
    "pareto": Expectation(
        "instance 2, as drawn: Inception-v3's time after swapping over that before (1: nobody is hurt, so no Pareto "
        "optimum)", "§3.1.2, Fig. 5", "1", between(1, 1), "{:.3f}", kind="identity",
    ),
    "drf": Expectation(
        "DRF, run on both instances: the worst time over that on four GPUs of one machine", "Theorem 3.1", "above 1",
        at_least(1.01), "{:.3f}",
    ),
    "las": Expectation(
        "LAS (Tiresias) too", "Theorem 3.1", "above 1", at_least(1.01), "{:.3f}",
    ),
    "themis": Expectation(
        "Themis: the worst time over that on four GPUs of one machine", "§3.3", "1", between(1, 1.0001), "{:.3f}",
    ),
}  # fmt: skip


def app(name: str, model: str) -> App:
    """Make an app of one job with four tasks."""
    return App.single(name, 0.0, WORK_S, gpus=4, slowdown=MODELS[model].slowdown, model=model)


def seconds(instance: str, which: int, gpus: tuple[int, ...]) -> float:
    """Seconds that one of the two apps takes on some GPUs."""
    cluster, models = INSTANCES[instance]
    return WORK_S / rate(cluster, MODELS[models[which]].slowdown, gpus, 4, 1)


def agents_rho() -> float:
    """ρ of an app of instance 1 on the GPUs that are drawn, as its agent reckons with two apps in the cluster."""
    cluster, models = INSTANCES["1"]
    view = AppView(0, app("A1", models[0]), 0.0, 0, (RunningJob(0, WORK_S, 4, 1),), (), (), 0.0, 2.0, cluster.n_gpus)
    return view.rho(Shape.of(cluster, DRAWN["1"][0]))


def played() -> Frame:
    """Both instances under the policies, apps in both orders: nothing but placement costs time."""
    import pandas as pd

    return pd.DataFrame(_rows())


def _rows() -> Iterator[dict[str, object]]:
    for instance, (cluster, models) in INSTANCES.items():
        for order in permutations(range(2)):
            apps = tuple(app(f"A{k + 1}", models[k]) for k in order)
            world = SharingWorld(cluster, apps, checkpoint_s=0.0, container_s=0.0)
            for name in POLICIES:
                policy: Policy = Themis(fairness=0.0) if name == "themis" else baseline(name)
                result = simulate(world, policy, engine="simpy")
                for k, spec in enumerate(apps):
                    first = next(g.gpus for g in result.grants if g.app == k)
                    yield {
                        "instance": instance, "first": apps[0].name, "policy": name, "app": spec.name,
                        "model": spec.model, "gpus": " ".join(map(str, first)), "level": cluster.level(first).name,
                        "slowdown": float(result.finish[k]) / (WORK_S / 4),
                    }  # fmt: skip


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    worst = frame.groupby("policy").slowdown.max()
    mine, others = DRAWN["2"][1], DRAWN["2"][0]
    return [
        EXPECTED["incentive"].judge(seconds("1", 0, DRAWN["1"][0]) / (WORK_S / 4)),
        EXPECTED["agent"].judge(
            agents_rho(),
            why="§4.3.1 approximates T_id by N times the time on the whole cluster, which an app of four tasks cannot "
            "use: twice the time on its half. ρ ≤ 1 then asks less than the definition of §3.2",
        ),
        EXPECTED["envy"].judge(seconds("2", 1, others) / seconds("2", 1, mine)),
        EXPECTED["pareto"].judge(seconds("2", 0, mine) / seconds("2", 0, others)),
        EXPECTED["drf"].judge(float(worst["drf"])),
        EXPECTED["las"].judge(float(worst["tiresias"])),
        EXPECTED["themis"].judge(float(worst["themis"])),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast and full are the same. Nothing in it is random."""
    session = Session("themis/fig05", fast, out, seed)
    frame = session.table(played())
    worst = frame.groupby(["policy", "instance"], sort=False).slowdown.max().unstack()
    with canvas(1, 1, width=4.4, height=2.2) as (figure, axes):
        ax = axes[0, 0]
        for k, (instance, colour) in enumerate((("1", BLUE), ("2", VERMILLION))):
            at = [x + 0.36 * (k - 0.5) for x in range(len(worst))]
            ax.bar(at, worst[instance], 0.34, color=colour, label=f"instance {instance}")
        ax.set_xticks(range(len(worst)), list(worst.index), fontsize=7)
        ax.set(ylabel="worst slowdown", ylim=(0.9, 1.4))
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=7)
        session.figure(figure)
    return session.finish(judged(frame), notes=NOTES)


NOTES = ("with two apps in the order A1, A2 and the reverse; a policy's worst app of both counts",)

if __name__ == "__main__":
    main("themis/fig05")
