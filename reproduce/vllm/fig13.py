"""Figure 13: how many requests are batched, from lengths, allocators and one constant of the memory bandwidth."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from ...profiles.llm.iteration import IterationCost
from ...profiles.llm.linear import ConstantCost
from ...traces.lengths import ALPACA, SHAREGPT, LengthProfile
from ..claims import Expectation, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREY, canvas, outside_legend
from . import kv_memory as setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORKLOADS: dict[str, tuple[LengthProfile, float]] = {"ShareGPT": (SHAREGPT, 2.0), "Alpaca": (ALPACA, 30.0)}
"""Workload -> lengths, requests/s."""
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
        for panel, (workload, (_, rate)) in zip("ab", WORKLOADS.items(), strict=True)
        for system in setup.SYSTEMS
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


def batch(
    system: str, workload: str, cost: IterationCost, duration: float, seeds: tuple[int, ...]
) -> tuple[float, float, float]:
    """Mean batch, share of the slots in use, and requests finished a second, without the first sixth of the time.

    Parameters
    ----------
    system, workload : str
        Keys of `SYSTEMS` and `WORKLOADS`.
    cost : IterationCost
        Seconds of an iteration.
    duration : float
        Seconds of arrivals.
    seeds : tuple of int
        A trace for each; all systems see the same ones.
    """
    lengths, rate = WORKLOADS[workload]
    # without the first sixth, in which batches fill up; the share is a guess
    window = (duration / 6, duration)
    runs = [setup.serve(system, setup.poisson(lengths, rate, duration, s), cost, window) for s in seeds]
    return (
        fmean(r.batch for r in runs),
        fmean(r.memory.used for r in runs),
        fmean(r.finished / r.seconds for r in runs),
    )


def batches(fast: bool, seed: int, progress: Progress = quiet) -> tuple[Frame, float]:
    """Every system on both workloads, and the constant.

    Returns
    -------
    DataFrame
        Columns workload, rate, system, batch, batch_paper, used (share of the slots), finished_per_s, role
        ("calibrated" or "predicted"), batch_saturated (what the memory holds: requests always wait) and, of Orca on
        Alpaca, batch_prompts_apart (prompts take iterations of their own, as vLLM's do).
    float
        The share of the A100's bandwidth.
    """
    import pandas as pd

    durations = {"ShareGPT": 1200.0, "Alpaca": 300.0} if fast else {"ShareGPT": 3600.0, "Alpaca": 900.0}
    seeds = (seed,) if fast else (seed, seed + 1, seed + 2)
    progress(0, 9, "calibration on vLLM's batch")
    efficiency = setup.calibrate(
        PAPER["ShareGPT"]["vLLM"],
        lambda share: batch("vLLM", "ShareGPT", setup.bandwidth_cost(share), durations["ShareGPT"], seeds)[0],
    )
    cost, full_until, rows = setup.bandwidth_cost(efficiency), 3000.0 if fast else 11_000.0, []
    for workload, (lengths, rate) in WORKLOADS.items():
        for system in setup.SYSTEMS:
            progress(1 + len(rows), 9, f"{system}, {workload}")
            mean, used, finished = batch(system, workload, cost, durations[workload], seeds)
            # What the memory holds does not depend on seconds, so every iteration may take one.
            full = setup.serve(system, setup.saturated(lengths, seed), ConstantCost(1.0), (1000.0, full_until))
            apart = None
            if workload == "Alpaca" and system != "vLLM":  # short outputs: prompts join nearly every iteration
                apart = batch(system, workload, setup.PromptsApart(cost), durations[workload], seeds)[0]
            rows.append(
                {
                    "workload": workload,
                    "rate": rate,
                    "system": system,
                    "batch": mean,
                    "batch_paper": PAPER[workload][system],
                    "used": used,
                    "finished_per_s": finished,
                    "role": "calibrated" if (workload, system) == ("ShareGPT", "vLLM") else "predicted",
                    "batch_saturated": full.batch,
                    "batch_prompts_apart": apart,
                }
            )
    progress(9, 9, "")
    return pd.DataFrame(rows), efficiency


def draw(frame: Frame, ax: Axes, workload: str) -> Axes:
    """Draw the bars of one workload, ours beside the paper's."""
    part = frame[frame.workload == workload]
    for offset, column, colour, label in ((-0.2, "batch", BLUE, "ours"), (0.2, "batch_paper", GREY, "paper")):
        x = [i + offset for i in range(len(part))]
        bars = ax.bar(x, part[column], 0.36, color=colour, label=label)
        ax.bar_label(bars, fmt="%.1f", fontsize=7)
    ax.set_xticks(range(len(part)), [s.replace(" ", "\n") for s in part.system], fontsize=8)
    ax.set(ylabel="requests in the batch", title=f"{workload}, {part.rate.iloc[0]:g} requests/s")
    ax.grid(visible=False, axis="x")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: three traces of an hour (Alpaca: 15 minutes); fast: one of 20 (Alpaca: 5) minutes."""
    session = Session("vllm/fig13", fast, out, seed)
    frame, efficiency = batches(fast, seed, progress)
    session.table(frame)
    with canvas(1, 2, height=2.9) as (figure, axes):
        for ax, workload in zip(axes[0], WORKLOADS, strict=True):
            draw(frame, ax, workload)
        outside_legend(figure, axes[0, 0])
        session.figure(figure)

    by = frame.set_index(["workload", "system"])
    ours, full, apart = by.batch, by.batch_saturated, by.batch_prompts_apart
    oracle, paged = ("Alpaca", "Orca (Oracle)"), ("Alpaca", "vLLM")
    why = {
        ("Alpaca", "Orca (Pow2)"): "how many fit depends on the spread of Alpaca's lengths, which is assumed",
        oracle: f"the memory would hold {full[oracle]:.0f}, so the batch follows from the iteration's time: "
        f"{apart[oracle]:.0f} if prompts took iterations of their own, as they may in the paper's own Orca",
        paged: f"the memory would hold {full[paged]:.0f}, so the batch follows from the iteration's time, and the one "
        "constant is of ShareGPT's long contexts; vLLM's prompts take iterations of their own",
    }
    vllm = ours["ShareGPT", "vLLM"]
    predicted = [key for key in EXPECTED if isinstance(key, tuple)]
    return session.finish(
        [
            *(EXPECTED[key].judge(ours[key], why=why.get(key, "")) for key in predicted),
            EXPECTED["oracle"].judge(vllm / ours["ShareGPT", "Orca (Oracle)"]),
            EXPECTED["max"].judge(vllm / ours["ShareGPT", "Orca (Max)"]),
        ],
        notes=[
            f"one constant: every iteration reads the weights, and the keys and values of its decodes, at "
            f"{efficiency:.3f} × {setup.BANDWIDTH / 1e12:g} TB/s; calibrated on vLLM's 30.42 (ShareGPT) and on nothing "
            "else; a prompt costs one reading of the weights",
            "the output CV of the lengths comes from Fig. 2 (traces.lengths); arrivals are Poisson",
            "vLLM processes prompts in iterations of their own (0.2.7); Orca mixes them with decodes",
        ],
    )


if __name__ == "__main__":
    main("vllm/fig13")
