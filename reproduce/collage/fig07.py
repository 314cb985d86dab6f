"""Figure 7 (Collage; thesis 2.7): five networks on every framework and on Collage, end to end."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from ..claims import Claim, Expectation, at_least, at_most, between, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import canvas
from .campaign.parts import Part
from .campaign.records import Campaign, Contest
from .picture import grouped, signed
from .shown import notes, of_figure
from .systems import ALL_NETWORKS, COLLAGE, COLOURS, FRAMEWORKS, NETWORKS, OP_LEVEL, TITLES

ON_A_GPU = (
    "a GPU, and backends of it registered (docs/backends.md, a backend of your own), then: meshwright reproduce "
    "collage/fig07"
)

EXPECTED = {
    "V100": Expectation(
        "Collage outperforms the best framework of each network on a V100 (geometric mean over five networks)",
        "§2.5.2, Fig. 2.7a", "1.43×", within(1.43, 0.15, partly=0.25, beyond="above"), "{:.2f}×",
    ),
    "RTX 2070": Expectation(
        "the same on an RTX 2070", "§2.5.2, Fig. 2.7b", "1.26×", within(1.26, 0.15, partly=0.2, beyond="above"),
        "{:.2f}×",
    ),
    "Xeon": Expectation(
        "the same on a CPU (there a Xeon 8259CL)", "§2.5.2, Fig. 2.7c", "1.40×",
        within(1.40, 0.15, partly=0.25, beyond="above"), "{:.2f}×", timed=True,
    ),
    "faster": Expectation(
        "on the CPU two of the five networks are faster on a framework (by more than 3 %)", "§2.5.2, Fig. 2.7c",
        "2 (BERT, 3D-ResNet50)", between(1, 3, partly=(0, 4), beyond="below"), "{:.0f}", timed=True,
    ),
    "never below": Expectation(
        "Collage consistently gives the most efficient executable: its lowest throughput over the best framework's",
        "§2.5.2", "at least 1 (GPUs)", at_least(0.97, partly=0.9), "{:.3f}", timed=True,
    ),
    "stable": Expectation(
        "Collage is the most stable across workloads: the steadiest framework's lowest throughput over Collage's",
        "§2.5.2", "below 1", at_most(0.97, partly=1.0), "{:.3f}", timed=True,
    ),
    "deviation": Expectation(
        "the standard deviation is marginal (the largest of any way over its rounds, relative)", "§2.5.2",
        "less than 3 %", at_most(0.03, partly=0.06), "{:.1%}", timed=True,
    ),
}  # fmt: skip


def best_framework(found: Contest) -> str:
    """The fastest framework of a contest."""
    return min((name for name in FRAMEWORKS if not math.isnan(found.ms(name))), key=found.ms)


def lead(found: Contest) -> float:
    """Collage's throughput over the best framework's, in the same rounds."""
    return found.speedup(COLLAGE, best_framework(found))


def throughput(campaign: Campaign) -> Frame:
    """Throughput of each way over Collage's.

    Returns
    -------
    DataFrame
        Columns group (network), series, backend, ms, normalised (throughput over Collage's), predicted_ms, groups,
        deviation.
    """
    import pandas as pd

    rows: list[dict[str, object]] = []
    for found in (campaign.contest(name) for name in ALL_NETWORKS):
        if found is None:
            continue
        for way in found.ways:
            rows.append({
                "group": found.model, "series": FRAMEWORKS.get(way.name, way.name), "backend": way.name,
                "ms": way.median, "normalised": 1 / found.speedup(COLLAGE, way.name) if way.ms else math.nan,
                "predicted_ms": math.nan if way.predicted_ms is None else way.predicted_ms, "groups": way.groups,
                "uses": "+".join(way.backends), "deviation": way.deviation,
            })  # fmt: skip
    return pd.DataFrame(rows)


def judged(campaign: Campaign) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    found = [one for one in (campaign.contest(name) for name in NETWORKS) if one is not None]
    leads = {one.model: lead(one) for one in found}
    mean = statistics.geometric_mean(leads.values())
    each = ", ".join(
        f"{TITLES[one.model]} {leads[one.model]:.2f}× {FRAMEWORKS[best_framework(one)]} (plan: "
        f"{one.chosen.removeprefix('alone: ')})"
        for one in found
    )
    eager = statistics.geometric_mean(one.speedup(COLLAGE, "torch-onednn") for one in found)
    cut = ", ".join(f"{TITLES[m.model]} {m.speedup(best_framework(m), OP_LEVEL):.2f}×" for m in found)
    plans = ", ".join(f"{TITLES[one.model]} {one.chosen.removeprefix('alone: ')}" for one in found)
    why = (
        f"{each}; over PyTorch it is {eager:.2f}×. Cutting a network into groups costs: the op level's placement takes "
        f"these times what the best framework does: {cut}"
    )
    worst = min(leads, key=lambda name: leads[name])
    steadiest = {
        name: min((1 / one.speedup(COLLAGE, name) for one in found if one.ms(name) > 0), default=math.nan)
        for name in FRAMEWORKS
        if all(one.ms(name) > 0 for one in found)
    }
    steady = max(steadiest, key=lambda name: steadiest[name])
    noisy = max(((way.deviation, way.name, one.model) for one in found for way in one.ways if way.ms), default=None)
    assert noisy is not None
    control = max(abs(one.speedup("control", "torch-onednn") - 1) for one in found)
    return [
        EXPECTED["V100"].needs_gpu(ON_A_GPU),
        EXPECTED["RTX 2070"].needs_gpu(ON_A_GPU),
        EXPECTED["Xeon"].judge(mean, why=why),
        EXPECTED["faster"].judge(sum(one < 0.97 for one in leads.values()), why=each),
        EXPECTED["never below"].judge(leads[worst], why=f"{TITLES[worst]}; {each}"),
        EXPECTED["stable"].judge(
            steadiest[steady],
            why=f"{FRAMEWORKS[steady]}; Collage's plans are {plans}",
        ),
        EXPECTED["deviation"].judge(
            noisy[0],
            why=f"{noisy[1]} on {TITLES[noisy[2]]}; PyTorch beside itself differs by at most {control:.1%} in the "
            "median of its rounds, which is what speedups are made of",
        ),
    ]


def sensitivity(campaign: Campaign) -> Sensitivity:
    """The mean over the best framework, as what it is held against and what may be chosen change."""
    found = [one for one in (campaign.contest(name) for name in NETWORKS) if one is not None]

    def mean(of: str, over: tuple[str, ...]) -> float:
        each: list[float] = []
        for one in found:
            there = [name for name in over if one.ms(name) > 0]
            each.append(one.speedup(of, min(there, key=one.ms)) if there and one.ms(of) > 0 else math.nan)
        return statistics.geometric_mean(each) if all(x > 0 for x in each) else math.nan

    every = tuple(FRAMEWORKS)
    ours = mean(COLLAGE, every)
    no_runtime = tuple(name for name in every if name not in ("onnxruntime", "openvino"))
    swings = (
        Swing("held against all six frameworks", "PyTorch alone", "torch's own four", mean(COLLAGE, every[:1]),
              mean(COLLAGE, no_runtime)),
        Swing("the plan falls back to a single backend", "op level", "graph level", mean(OP_LEVEL, every),
              mean("Collage, graph level", every)),
    )  # fmt: skip
    least = min(swing.at_high for swing in swings[:1])
    return Sensitivity(
        "Collage over the best framework, mean of five", 1.40, ours, "× best framework", swings,
        f"weaker frameworks than these six: held against torch's own four it is {least:.2f}×, against PyTorch alone "
        f"{swings[0].at_low:.2f}×; the thesis' are TF, TF-XLA, PyTorch and TVM",
    )  # fmt: skip


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: the shipped campaign; full: measured here."""
    session = Session("collage/fig07", fast, out, seed)
    campaign = of_figure(fast, out, [Part("contest", name) for name in NETWORKS], progress)
    frame = session.table(throughput(campaign))
    with canvas(1, 1, width=8.6, height=3.2) as (figure, axes):
        draw(frame, campaign, axes[0, 0])
        signed(figure, axes[0, 0], campaign, fast, columns=4)
        session.figure(figure)
    return session.finish(judged(campaign), notes(campaign, fast), [sensitivity(campaign)])


def draw(frame: Frame, campaign: Campaign, ax: object) -> None:
    """Normalised throughput, a group of bars for each network."""
    from matplotlib.axes import Axes

    assert isinstance(ax, Axes)
    groups = [name for name in ALL_NETWORKS if campaign.contest(name) is not None]
    colours = {title: COLOURS[name] for name, title in FRAMEWORKS.items()}
    colours |= {OP_LEVEL: COLOURS[OP_LEVEL], COLLAGE: COLOURS[COLLAGE]}
    grouped(frame, ax, groups, colours, value="normalised", labels=[TITLES[name] for name in groups])
    ax.axhline(1.0, color=COLOURS[COLLAGE], linewidth=0.8, linestyle=":")
    ax.set(ylabel="throughput over Collage's")


if __name__ == "__main__":
    main("collage/fig07")
