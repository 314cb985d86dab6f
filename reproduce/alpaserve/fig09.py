"""Figure 9 (AlpaServe): latency, throughput and memory of inter-op, intra-op parallelism and replication."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles import ParallelConfig, load
from ..claims import Expectation, at_least, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import canvas, lines, outside_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL = "bert-2.6b"
DEVICES = (1, 2, 4, 8)
PANELS = {
    "latency_s": ("latency (s)", "a: latency"),
    "throughput_per_s": ("throughput (requests/s)", "b: throughput"),
    "memory_gb": ("total weights (GB)", "c: memory"),
}

EXPECTED = {
    "inter latency": Expectation(
        "inter-op parallelism does not shorten one request; its latency rises slightly (eight devices over one)",
        "§3.3, Fig. 9a",
        "slightly > 1",
        between(1.0, 1.2, partly=(1.0, 1.4)),
        "{:.2f}×",
    ),
    "intra latency": Expectation(
        "intra-op parallelism shortens it a lot (one device over eight)",
        "§3.3, Fig. 9a",
        "> 1",
        at_least(2.0, partly=1.2),
        "{:.2f}×",
    ),
    "throughput": Expectation(
        "inter-op attains a higher throughput than intra-op at two, four and eight devices (least ratio)",
        "§3.3, Fig. 9b",
        "> 1",
        at_least(1.0),
        "{:.2f}×",
    ),
    "memory": Expectation(
        "both keep the total memory constant (largest deviation from one copy)",
        "§3.3, Fig. 9c",
        "0 %",
        at_most(0.05, partly=0.10),
        "{:.1%}",
        kind="identity",
    ),
    "replication": Expectation(
        "replication multiplies it (eight devices over one)",
        "§3.3, Fig. 9c",
        "8×",
        between(7.99, 8.01),
        "{:.2f}×",
        kind="identity",
    ),
}


def costs(model: str = MODEL) -> Frame:
    """What one model costs on n devices, by kind of parallelism, from the shipped profile.

    Returns
    -------
    DataFrame
        Columns system, devices, latency_s, throughput_per_s, memory_gb.
    """
    import pandas as pd

    profile = load("alpaserve-v100")[model]
    one = ParallelConfig(1, 1)
    rows = []
    for n in DEVICES:
        for system, config, copies in (
            ("inter-op", ParallelConfig(1, n), 1),
            ("intra-op", ParallelConfig(n, 1), 1),
            ("replication", one, n),
        ):
            stages = profile.latency(config)
            rows.append(
                {
                    "system": system,
                    "devices": n,
                    "latency_s": sum(stages) + (config.pp - 1) * profile.hop_s(config),
                    "throughput_per_s": copies / max(stages),
                    "memory_gb": copies * config.op * sum(profile.weight_bytes(config)) / 1e9,
                }
            )
    return pd.DataFrame(rows)


def draw(frame: Frame, column: str, ax: Axes) -> Axes:
    """Draw one panel."""
    label, title = PANELS[column]
    lines(frame, ax, x="devices", y=column)
    if column == "memory_gb":  # the first two lie on one another
        ax.lines[1].set_linestyle("--")
    ax.set(xlabel="devices", ylabel=label, title=title)
    ax.set_xticks(DEVICES)
    ax.set_ylim(bottom=0)
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; nothing in it is random, and fast is full."""
    session = Session("alpaserve/fig09", fast, out, seed)
    frame = session.table(costs())
    with canvas(1, 3, width=2.7) as (figure, axes):
        for column, ax in zip(PANELS, axes.flat, strict=True):
            draw(frame, column, ax)
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    at = frame.set_index(["system", "devices"])
    several = list(DEVICES[1:])
    rate = {name: at.throughput_per_s[name][several] for name in ("inter-op", "intra-op")}
    split = at.memory_gb[["inter-op", "intra-op"]]
    return session.finish(
        [
            EXPECTED["inter latency"].judge(at.latency_s["inter-op", 8] / at.latency_s["inter-op", 1]),
            EXPECTED["intra latency"].judge(at.latency_s["intra-op", 1] / at.latency_s["intra-op", 8]),
            EXPECTED["throughput"].judge((rate["inter-op"] / rate["intra-op"]).min()),
            EXPECTED["memory"].judge((split / at.memory_gb["replication", 1] - 1.0).abs().max()),
            EXPECTED["replication"].judge(at.memory_gb["replication", 8] / at.memory_gb["replication", 1]),
        ]
    )


if __name__ == "__main__":
    main("alpaserve/fig09")
