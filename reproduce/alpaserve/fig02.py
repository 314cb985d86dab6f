"""Figure 2: two models on two devices, simple or model-parallel placement: latency CDFs and cluster utilization."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import traces
from ...profiles import ModelProfile, ParallelConfig
from ...simulator import Group, Placement, SimulationResult, simulate
from ...traces import Trace
from ..claims import Expectation, at_least, at_most, between, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sampling import summarise
from ..style import COLOURS, canvas, outside_legend, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LATENCY_S = 0.4
"""A request on one device (§3.1)."""
MODELS = ("model 1", "model 2")
SCENARIOS: Mapping[str, tuple[tuple[float, float], float]] = {
    "a: Poisson": ((1.5, 1.5), 1.0),
    "b: Gamma, CV 3": ((1.5, 1.5), 3.0),
    "c: Poisson, 20/80": ((0.6, 2.4), 1.0),
}
"""Scenario -> requests per second of each model, CV (§3.1: 1.5/s each; CV 3; 20 % and 80 % of the requests)."""

ONE, TWO = ParallelConfig(1, 1), ParallelConfig(1, 2)
PROFILES = {
    name: ModelProfile.from_stages(name, {ONE: {1: [LATENCY_S]}, TWO: {1: [LATENCY_S / 2] * 2}}) for name in MODELS
}
PLACEMENTS = {
    "simple": Placement([Group(ONE, [MODELS[0]]), Group(ONE, [MODELS[1]])]),
    "model parallel": Placement([Group(TWO, MODELS)]),
}

EXPECTED = {
    "simple": Expectation(
        "Poisson: mean latency of the simple placement", "§3.1, Fig. 2a", "0.70 s", within(0.70, 0.05), "{:.3f} s"
    ),
    "parallel": Expectation(
        "Poisson: mean latency of the model-parallel placement",
        "§3.1, Fig. 2a",
        "0.55 s",
        within(0.55, 0.05),
        "{:.3f} s",
    ),
    "poisson": Expectation(
        "Poisson: speedup of the mean latency",
        "§3.1, Fig. 2a",
        "1.3×",
        within(1.3, 0.05, partly=0.15, beyond="above"),
        "{:.2f}×",
    ),
    "gamma": Expectation(
        "CV 3: speedup of the mean latency",
        "§3.1, Fig. 2b",
        "1.9×",
        within(1.9, 0.10, partly=0.25, beyond="above"),
        "{:.2f}×",
    ),
    "skew": Expectation(
        "20 % / 80 % of the requests: reduction of the mean latency",
        "§3.1, Fig. 2c",
        "6.6×",
        within(6.6, 0.20, partly=0.50, beyond="above"),
        "{:.2f}×",
    ),
    "quiet model": Expectation(
        "20 / 80: simple placement is slightly better for model 1 (its mean latency over the model-parallel one)",
        "§3.1, Fig. 2c",
        "< 1",
        between(0.75, 0.999, beyond="below"),
        "{:.3f}",
    ),
    "same": Expectation(
        "20 / 80, model parallel: both models see the same latency distribution (Kolmogorov–Smirnov distance)",
        "§3.1, Fig. 2c",
        "same",
        at_most(0.05, partly=0.10),
        "{:.3f}",
    ),
    "bursts": Expectation(
        "CV 3: while requests wait, the model-parallel placement uses more of the cluster (difference in utilization)",
        "§3.1, Fig. 2d",
        "whole against half",
        at_least(0.25, partly=0.10),
        "{:.2f}",
    ),
}

WHY_SKEW = (
    "M/D/1 gives 4.25 s / 0.55 s = 7.7× in the long run, model 2 being 96 % loaded; the paper measured a finite run"
)

BUSY = ("busy_while_waiting", "busy_one_waits")
"""Shares of the devices: while any request waits, and while requests of one model alone do."""
QUIET = (0.5, 0.5)
"""A third of the load, at which bursts of the two models seldom meet; to test why the simple placement is so busy."""


def latencies(duration: float, repetitions: int, seed: int, progress: Progress = quiet) -> tuple[Frame, Frame]:
    """Latencies of both placements on the same arrivals.

    Parameters
    ----------
    duration : float
        Seconds of each trace.
    repetitions : int
        Traces of each scenario.
    seed : int
        Seed.

    Returns
    -------
    means : DataFrame
        Columns scenario, system, repetition, model ("all" or a model), mean_latency_s, and those of `BUSY`.
    cdf : DataFrame
        Columns scenario, system, model, latency_s, fraction: 200 quantiles over all repetitions.
    """
    import pandas as pd

    means, points = [], []
    total = len(SCENARIOS) * repetitions
    for s, (scenario, (rates, cv)) in enumerate(SCENARIOS.items()):
        pooled: dict[tuple[str, str], list[np.ndarray]] = {}
        for r in range(repetitions):
            progress(s * repetitions + r, total, scenario)
            trace = traces.gamma(rates, cv, duration, MODELS, seed=seed + r)
            for system, placement in PLACEMENTS.items():
                result = simulate(placement, trace, PROFILES)
                latency = result.finish - trace.arrival
                row = {"scenario": scenario, "system": system, "repetition": r}
                busy, alone = busy_while_waiting(result)
                for m, name in ((None, "all"), (0, MODELS[0]), (1, MODELS[1])):
                    mine = latency if m is None else latency[trace.model == m]
                    shares = (busy, alone) if m is None else (np.nan, np.nan)
                    cells = dict(zip(BUSY, shares, strict=True))
                    means.append(row | {"model": name, "mean_latency_s": mine.mean()} | cells)
                    pooled.setdefault((system, name), []).append(mine)
        fractions = np.linspace(0.0, 1.0, 201)[1:]
        for (system, name), parts in pooled.items():
            quantiles = np.quantile(np.concatenate(parts), fractions)
            points.append(
                pd.DataFrame(
                    {
                        "scenario": scenario,
                        "system": system,
                        "model": name,
                        "latency_s": quantiles,
                        "fraction": fractions,
                    }
                )
            )
    progress(total, total, "")
    return pd.DataFrame(means), pd.concat(points, ignore_index=True)


def busy_while_waiting(result: SimulationResult) -> tuple[float, float]:
    """Mean share of the devices that are busy over the time in which some request waits, and in which one model's do.

    The latter leaves out bursts of the two models that meet: then a placement of either kind has work for both devices.
    """
    trace = result.trace
    late = result.start > trace.arrival + 1e-9
    if not late.any():
        return float("nan"), float("nan")
    # Four points in each service: devices begin and end services no more often than that.
    grid = np.arange(0.0, trace.duration, LATENCY_S / 4)
    waiting = np.zeros(len(grid), dtype=np.int64)
    for model in range(len(MODELS)):
        mine = late & (trace.model == model)
        began, ended = np.sort(trace.arrival[mine]), np.sort(result.start[mine])
        waiting += np.searchsorted(began, grid, "right") > np.searchsorted(ended, grid, "right")
    timeline = result.timeline()
    on, off = np.sort(timeline.start), np.sort(timeline.end)
    busy = (np.searchsorted(on, grid, "right") - np.searchsorted(off, grid, "right")) / len(timeline.lanes)
    any_, one = (float(busy[some].mean()) if some.any() else float("nan") for some in (waiting > 0, waiting == 1))
    return any_, one


def why_bursts(at: Any, duration: float, repetitions: int, seed: int) -> str:
    """What was changed to see why the simple placement uses more than half of the cluster."""
    single = {s: at.busy_one_waits["b: Gamma, CV 3", s, "all"] for s in PLACEMENTS}
    rare: dict[str, list[float]] = {s: [] for s in PLACEMENTS}
    for r in range(repetitions):
        trace = traces.gamma(QUIET, SCENARIOS["b: Gamma, CV 3"][1], duration, MODELS, seed=seed + r)
        for system, placement in PLACEMENTS.items():
            rare[system].append(busy_while_waiting(simulate(placement, trace, PROFILES))[0])
    fewer = {s: float(np.mean(values)) for s, values in rare.items()}
    return (
        "bursts of both models meet, and then the simple placement uses both devices too. Of the time in which one "
        f"model's requests wait it is {single['model parallel']:.0%} against {single['simple']:.0%}; with {QUIET[0]:g} "
        f"requests/s of each model instead of 1.5 {fewer['model parallel']:.0%} against {fewer['simple']:.0%}"
    )


def utilization(trace: Trace, window: float = 0.5) -> Frame:
    """Cluster utilization over time on one trace: columns system, time_s, utilization."""
    import pandas as pd

    parts = []
    for system, placement in PLACEMENTS.items():
        used = simulate(placement, trace, PROFILES).utilization(window)
        parts.append(pd.DataFrame({"system": system, "time_s": np.arange(len(used)) * window, "utilization": used}))
    return pd.concat(parts, ignore_index=True)


def draw_cdf(cdf: Frame, means: Frame, scenario: str, ax: Axes) -> Axes:
    """Draw one latency CDF with the mean as a vertical line; per model where the models differ."""
    split = "20/80" in scenario
    part = cdf[cdf.scenario == scenario]
    for system in PLACEMENTS:
        mine = part[part.system == system]
        for name, dash in ((MODELS[0], (0, (1, 1))), (MODELS[1], "--")) if split else (("all", "-"),):
            line = mine[mine.model == name]
            ax.plot(line.latency_s, line.fraction, color=COLOURS[system], linestyle=dash)
        mean = means[(means.scenario == scenario) & (means.system == system) & (means.model == "all")]
        ax.axvline(mean.mean_latency_s.mean(), color=COLOURS[system], linewidth=1, alpha=0.7)
        ax.plot([], [], color=COLOURS[system], label=system)
    if split:
        ax.plot([], [], color="#555555", linestyle=(0, (1, 1)), label="model 1 (20 %)")
        ax.plot([], [], color="#555555", linestyle="--", label="model 2 (80 %)")
    ax.plot([], [], color="#555555", linewidth=1, alpha=0.7, label="mean")
    high = part[part.fraction <= 0.98].groupby("system").latency_s.max()
    ax.set(ylim=(0, 1.02), xlabel="latency (s)", ylabel="fraction of requests", title=scenario)
    if split:  # the busy model waits many times longer than the other
        ax.set(xscale="log", xlim=(0.3, 1.3 * high.max()))
        plain_ticks(ax, "x", (0.4, 1, 2, 5, 10, 20))
    else:
        ax.set_xlim(0, 2.2 * high.min())
    return ax


def draw_utilization(frame: Frame, ax: Axes) -> Axes:
    """Draw the cluster's utilization over time."""
    for system in PLACEMENTS:
        part = frame[frame.system == system]
        ax.step(part.time_s, 100 * part.utilization, where="post", color=COLOURS[system], label=system, linewidth=1.2)
    ax.set(xlabel="time (s)", ylabel="cluster utilization (%)", ylim=(0, 104), title="d: utilization, CV 3")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: 20 traces of 6,000 s per scenario; fast: 5 of 2,000 s."""
    session = Session("alpaserve/fig02", fast, out, seed)
    duration, repetitions = (2000.0, 5) if fast else (6000.0, 20)
    means, cdf = latencies(duration, repetitions, seed, progress)
    summary = summarise(means, ("scenario", "system", "model"), ("mean_latency_s", *BUSY))
    rates, cv = SCENARIOS["b: Gamma, CV 3"]
    over_time = utilization(traces.gamma(rates, cv, 60.0, MODELS, seed=seed))
    session.table(summary)
    session.table(cdf, "-cdf")
    session.table(over_time, "-utilization")

    with canvas(2, 2, width=3.5, height=2.5) as (figure, axes):
        for scenario, ax in zip(SCENARIOS, axes.flat, strict=False):
            draw_cdf(cdf, means, scenario, ax)
        draw_utilization(over_time, axes[1, 1])
        outside_legend(figure, axes[1, 0], ncols=5)
        session.figure(figure)

    at = summary.set_index(["scenario", "system", "model"])
    mean = at.mean_latency_s
    ratio = {s: mean[s, "simple", "all"] / mean[s, "model parallel", "all"] for s in SCENARIOS}
    a, b, c = SCENARIOS
    alike = cdf[(cdf.scenario == c) & (cdf.system == "model parallel")]
    busy = at.busy_while_waiting
    return session.finish(
        [
            EXPECTED["simple"].judge(mean[a, "simple", "all"]),
            EXPECTED["parallel"].judge(mean[a, "model parallel", "all"]),
            EXPECTED["poisson"].judge(ratio[a]),
            EXPECTED["gamma"].judge(ratio[b]),
            EXPECTED["skew"].judge(ratio[c], why=WHY_SKEW),
            EXPECTED["quiet model"].judge(mean[c, "simple", MODELS[0]] / mean[c, "model parallel", MODELS[0]]),
            EXPECTED["same"].judge(distance(alike)),
            EXPECTED["bursts"].judge(
                busy[b, "model parallel", "all"] - busy[b, "simple", "all"],
                shown=f"{busy[b, 'model parallel', 'all']:.0%} against {busy[b, 'simple', 'all']:.0%}",
                why=why_bursts(at, duration, repetitions, seed),
            ),
        ],
        notes=["stages of 0.2 s each, without overhead, as the paper's 0.55 s implies (M/D/1: 0.70 s and 0.55 s)"],
    )


def distance(cdf: Frame) -> float:
    """Largest vertical distance between the CDFs of the two models."""
    curves = [cdf[cdf.model == name] for name in MODELS]
    grid = np.union1d(curves[0].latency_s, curves[1].latency_s)
    heights = [np.interp(grid, c.latency_s, c.fraction, left=0.0) for c in curves]
    return float(np.abs(heights[0] - heights[1]).max())


if __name__ == "__main__":
    main("alpaserve/fig02")
