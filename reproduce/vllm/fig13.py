"""Figure 13: how many requests are batched; vLLM's two batches fix the host time, Orca's six follow from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles.llm.linear import ConstantCost
from ...traces.lengths import SHAREGPT
from ..claims import Expectation, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import BLUE, GREY, canvas, outside_legend
from .host_time import WORKLOADS, calibrated, mean_batch
from .servers import HOST, MODELLED, SERVERS, Costs, HostTime
from .serving_rates import LATER, batch, requests, served

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = {
    "ShareGPT": {"Orca (Max)": 7.00, "Orca (Pow2)": 9.81, "Orca (Oracle)": 13.62, "vLLM": 30.42},
    "Alpaca": {"Orca (Max)": 7.00, "Orca (Pow2)": 43.24, "Orca (Oracle)": 72.75, "vLLM": 132.44},
}
"""Printed in the figure (Kwon et al. 2023, Fig. 13), which the thesis lost; its text has the ratios 2.2 and 4.3."""

FITTED = (("ShareGPT", "vLLM"), ("Alpaca", "vLLM"))
"""The two batches that fix the two seconds of host time."""

EXPECTED = {
    **{
        (workload, system): Expectation(
            f"{'calibrated' if (workload, system) in FITTED else 'predicted'}: requests that {system} batches, "
            f"{workload} at {rate:g} requests/s",
            f"Fig. 13{panel}", f"{PAPER[workload][system]:.2f}", within(PAPER[workload][system], 0.1, partly=0.25),
            "{:.2f}", kind="calibrated" if (workload, system) in FITTED else "finding",
        )
        for panel, (workload, (_, rate, _)) in zip("ab", WORKLOADS.items(), strict=True)
        for system in PAPER[workload]
    },
    "oracle": Expectation(
        "vLLM batches more than Orca (Oracle), ShareGPT (its calibrated batch over a predicted one)",
        "§5.6.2, Fig. 13a", "2.2×", within(2.2, 0.1, partly=0.25, beyond="above"), "{:.2f}×", kind="calibrated",
    ),
    "max": Expectation(
        "vLLM batches more than Orca (Max), ShareGPT (its calibrated batch over a predicted one)",
        "§5.6.2, Fig. 13a", "4.3×", within(4.3, 0.1, partly=0.25, beyond="above"), "{:.2f}×", kind="calibrated",
    ),
}  # fmt: skip


def held(system: str, workload: str, seed: int) -> float:
    """Requests that the memory holds: all wait from the start, and every iteration takes a second."""
    trace = requests(WORKLOADS[workload][0], 1e6, 0.02, seed)  # 20,000 requests at once
    result = served(system, SERVERS["OPT-13B"], trace, ConstantCost(1.0), until=9010.0)
    return batch(result, 1000.0, 9000.0)


def batches(
    fast: bool, seed: int, progress: Progress = quiet, costs: Costs = MODELLED
) -> tuple[Frame, HostTime | None]:
    """Every system on both workloads, and the host time.

    Returns
    -------
    DataFrame
        Columns workload, rate, system (`LATER` included), batch, batch_paper, role ("calibrated", "predicted" or "later
        released"), batch_saturated (what the memory holds: requests always wait).
    HostTime or None
        At which vLLM's batches are the paper's; None with fits, which leave nothing to calibrate.
    """
    import pandas as pd

    seeds, server, host = (seed,) if fast else (seed, seed + 1, seed + 2), SERVERS["OPT-13B"], None
    cost = costs.of(server)
    if costs.fits is None:
        progress(0, 11, "calibration on vLLM's batches")
        host = calibrated(seeds)
        cost = server.cost(host)
    rows: list[dict[str, object]] = []
    for workload, (_, rate, _) in WORKLOADS.items():
        for system in (*PAPER[workload], LATER):
            progress(1 + len(rows), 11, f"{system}, {workload}")
            fitted = host is not None and (workload, system) in FITTED
            role = "calibrated" if fitted else "later released" if system == LATER else "predicted"
            row: dict[str, object] = {"workload": workload, "rate": rate, "system": system}
            row |= {"batch": mean_batch(system, workload, cost, seeds), "batch_paper": PAPER[workload].get(system)}
            rows.append(row | {"role": role, "batch_saturated": held(system, workload, seed)})
    progress(11, 11, "")
    return pd.DataFrame(rows), host


def draw(frame: Frame, ax: Axes, workload: str) -> Axes:
    """Draw the bars of one workload, ours beside the paper's."""
    part = frame[frame.workload == workload]
    for offset, column, colour, label in ((-0.2, "batch", BLUE, "ours"), (0.2, "batch_paper", GREY, "paper")):
        x = [i + offset for i in range(len(part))]
        bars = ax.bar(x, part[column], 0.36, color=colour, label=label)
        ax.bar_label(bars, labels=["" if b != b else f"{b:.1f}" for b in part[column]], fontsize=7)
    ax.set_xticks(range(len(part)), [s.replace(" ", "\n") for s in part.system], fontsize=8)
    ax.set(ylabel="requests in the batch", title=f"{workload}, {part.rate.iloc[0]:g} requests/s")
    ax.grid(visible=False, axis="x")
    return ax


def hinges(host: HostTime, seed: int) -> tuple[Sensitivity, ...]:
    """What the batches of Orca on Alpaca hinge on: one trace, each assumption moved alone."""
    lengths, rate, duration = WORKLOADS["Alpaca"]
    server = SERVERS["OPT-13B"]

    def of(system: str, host: HostTime = host, **spread: float) -> float:
        trace = requests(replace(lengths, **spread), rate, duration, seed)
        return batch(served(system, server, trace, server.cost(host), until=duration), duration / 6, duration)

    found: list[Sensitivity] = []
    for system in ("Orca (Pow2)", "Orca (Oracle)"):
        ours, like = of(system), of(system, output_cv=SHAREGPT.output_cv)
        swings = (
            Swing(f"outputs' CV, {lengths.output_cv:.2f}", f"{SHAREGPT.output_cv:.2f}", "1.2",
                  like, of(system, output_cv=1.2)),
            Swing(f"prompts' CV, {lengths.prompt_cv:.2f}", "0.5", "1.2",
                  of(system, prompt_cv=0.5), of(system, prompt_cv=1.2)),
            Swing("host time, fitted", "none", "20 ms, 0",
                  of(system, HostTime(0.0, 0.0)), of(system, HostTime(0.02, 0.0))),
        )  # fmt: skip
        needs = f"the spread that Alpaca's outputs have: with that of ShareGPT's it is {like:.1f}"
        found.append(Sensitivity(f"{system}, Alpaca", PAPER["Alpaca"][system], ours, "requests", swings, needs))
    return tuple(found)


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet, fits: Path | None = None) -> Report:
    """Make the figure: traces of an hour (Alpaca: 15 minutes). Full: three of them; fast: one."""
    session = Session("vllm/fig13", fast, out, seed)
    frame, host = batches(fast, seed, progress, Costs(fits))
    session.table(frame)
    with canvas(1, 2, height=2.9, width=4.0) as (figure, axes):
        for ax, workload in zip(axes[0], WORKLOADS, strict=True):
            draw(frame, ax, workload)
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    by = frame.set_index(["workload", "system"])
    ours, full = by.batch, by.batch_saturated
    vllm = ours["ShareGPT", "vLLM"]
    values = {
        **{key: ours[key] for key in EXPECTED if isinstance(key, tuple)},
        "oracle": vllm / ours["ShareGPT", "Orca (Oracle)"],
        "max": vllm / ours["ShareGPT", "Orca (Max)"],
    }
    held = f"it holds {full['Alpaca', 'Orca (Oracle)']:.0f}, so that the iteration's time counts, too"
    why = {("Alpaca", "Orca (Oracle)"): held, ("Alpaca", "vLLM"): "iterations are shorter, so that fewer run at a time"}
    return session.finish(
        [_expected(key, host).judge(value, why=why.get(key, "")) for key, value in values.items()],
        notes=[
            Costs(fits).told()
            if host is None
            else f"two constants, fitted to vLLM's two batches: {1e3 * host.iteration_s:.2f} ms of host time an "
            f"iteration and {1e3 * host.sequence_s:.3f} ms a sequence, for every system; the other figures take "
            f"{1e3 * HOST.iteration_s:.2f} and {1e3 * HOST.sequence_s:.3f} (three seeds)",
            f"vLLM 0.2, which was later released with prompts in iterations of their own, would batch "
            f"{ours['ShareGPT', LATER]:.1f} and {ours['Alpaca', LATER]:.1f} at the same cost",
            "where the spreads of the lengths come from: traces.lengths; arrivals are Poisson",
        ],
        sensitivity=() if host is None else hinges(host, seed),
    )


def _expected(key: str | tuple[str, str], host: HostTime | None) -> Expectation:
    """A claim: with fits nothing is calibrated, so that all are findings."""
    one = EXPECTED[key]
    if host is not None or one.kind != "calibrated":
        return one
    text = one.text.replace("calibrated: ", "predicted: ").replace("its calibrated batch over a predicted one", "fits")
    return replace(one, text=text, kind="finding")


if __name__ == "__main__":
    main("vllm/fig13")
