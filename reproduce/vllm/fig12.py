"""Figure 12 (vLLM): normalized latency over the request rate, three OPT models, two workloads, five systems."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles.llm import IterationCost
from ...traces.lengths import ALPACA, SHAREGPT, LengthProfile
from ..claims import Claim, Expectation, at_least, between, up_to, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREEN, GREY, ORANGE, VERMILLION, canvas, outside_legend
from .serving_rates import SERVERS, SYSTEMS, Curve, PromptsApart, calibrated_share, curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORKLOADS: dict[str, LengthProfile] = {"ShareGPT": SHAREGPT, "Alpaca": ALPACA}
LIMIT = 0.5
"""Seconds per token up to which a rate counts as sustained; the paper says "similar latencies"."""
LIMITS = (0.25, LIMIT, 1.0)
"""Half and twice the limit as well, to show how much a rate depends on that choice."""
APART = "Orca (Oracle), prompts apart"
"""A variant that the paper does not have: prompts take iterations of their own, as in vLLM 0.2."""

COLOURS = {
    "FasterTransformer": GREY,
    "Orca (Max)": ORANGE,
    "Orca (Pow2)": GREEN,
    "Orca (Oracle)": VERMILLION,
    "vLLM": BLUE,
}

EXPECTED = {
    **{
        (model, "Orca (Oracle)"): Expectation(
            f"{model}, ShareGPT: rate that vLLM sustains over Orca (Oracle)'s", "§5.6.2", "1.7× to 2.7×",
            between(1.7, 2.7, partly=(1.36, 2.7), beyond="above"), "{:.2f}×",
        )
        for model in SERVERS
    },
    **{
        (model, "Orca (Max)"): Expectation(
            f"{model}, ShareGPT: rate that vLLM sustains over Orca (Max)'s", "§5.6.2", "2.7× to 8×",
            between(2.7, 8.0, partly=(2.16, 8.0), beyond="above"), "{:.2f}×",
        )
        for model in SERVERS
    },
    "FasterTransformer": Expectation(
        "rate that vLLM sustains over FasterTransformer's, the largest of the models and both data sets", "§5.6.2",
        "up to 22×", up_to(22, 0.25, partly=0.5), "{:.1f}×",
    ),
    "alpaca": Expectation(
        "OPT-13B, Alpaca: rate that vLLM sustains over Orca (Oracle)'s", "§5.6.3", "1.3×",
        within(1.3, 0.1, partly=0.25, beyond="above"), "{:.2f}×",
    ),
    **{
        ("panel f", orca): Expectation(
            f"Alpaca, OPT-175B: vLLM's advantage over {orca} (rate over its, less 1) is there, and less pronounced: as "
            "a share of that with OPT-13B", "§5.6.2, Fig. 12f", "above 0, below 1",
            between(0.0, 0.9, partly=(0.0, 1.0)), "{:.2f}",
        )
        for orca in ("Orca (Oracle)", "Orca (Pow2)")
    },
    "sudden": Expectation(
        "OPT-13B, ShareGPT, vLLM: latency rises gradually, then explodes (slope over the last third of the rates, over "
        "that before)", "§5.6.2", "suddenly explodes", at_least(5, partly=2), "{:.1f}×",
    ),
}  # fmt: skip


def curves(fast: bool, seed: int, progress: Progress = quiet) -> tuple[Frame, dict[tuple[str, str, str], Curve], float]:
    """Measure every system on every workload and model (fast: OPT-13B only).

    Returns
    -------
    DataFrame
        Columns model, workload, system, rate (requests/s), normalized_latency (s/token).
    dict
        (model, workload, system) -> curve.
    float
        The share of the roofline's speed.
    """
    import pandas as pd

    models = ("OPT-13B",) if fast else tuple(SERVERS)
    progress(0, 1, "calibration on vLLM's batch")
    share = calibrated_share(seed)
    jobs = [
        (model, workload, system)
        for model in models
        for workload in WORKLOADS
        for system in (*SYSTEMS, *((APART,) if workload == "Alpaca" else ()))
    ]
    found: dict[tuple[str, str, str], Curve] = {}
    for k, (model, workload, system) in enumerate(jobs):
        progress(k, len(jobs), f"{system}, {model}, {workload}")
        cost: IterationCost = SERVERS[model].cost(share)
        if system == APART:
            cost = PromptsApart(cost)
        policy = "Orca (Oracle)" if system == APART else system
        found[model, workload, system] = curve(
            policy, SERVERS[model], WORKLOADS[workload], cost, _duration(fast, model, workload), seed, LIMITS[-1]
        )
    progress(len(jobs), len(jobs), "")
    rows = [
        {"model": m, "workload": w, "system": s, "rate": rate, "normalized_latency": latency}
        for (m, w, s), c in found.items()
        for rate, latency in zip(c.rate.tolist(), c.latency.tolist(), strict=True)
    ]
    return pd.DataFrame(rows), found, share


def _duration(fast: bool, model: str, workload: str) -> float:
    """Seconds of arrivals. The paper has an hour, for OPT-175B 15 minutes; ours are shorter where requests are many."""
    if workload == "Alpaca":
        return 120.0 if fast else 900.0
    return 900.0 if fast or model == "OPT-175B" else 3600.0


def sustained(found: dict[tuple[str, str, str], Curve]) -> Frame:
    """One row per curve: the rate at which its latency crosses each of `LIMITS`, NaN where it always lies above."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "model": m,
                "workload": w,
                "system": s,
                **{f"rate_at_{limit:g}": c.sustained(limit) if c.latency[0] <= limit else None for limit in LIMITS},
            }
            for (m, w, s), c in found.items()
        ]
    )


def draw(frame: Frame, ax: Axes, model: str, workload: str) -> Axes:
    """Draw one panel: latency over rate."""
    for system, colour in COLOURS.items():
        part = frame[(frame.model == model) & (frame.workload == workload) & (frame.system == system)]
        ax.plot(part.rate, part.normalized_latency, marker="o", markersize=3, color=colour, label=system)
    ax.set(ylim=(0, 1.0), xlim=(0, None), xlabel="requests/s", ylabel="s/token", title=f"{model}, {workload}")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: traces of an hour (15 minutes for OPT-175B and Alpaca); fast: OPT-13B, minutes."""
    session = Session("vllm/fig12", fast, out, seed)
    frame, found, share = curves(fast, seed, progress)
    session.table(frame)
    rates = session.table(sustained(found), "_sustained")
    models = list(dict.fromkeys(frame.model))
    panels = [(model, workload) for workload in WORKLOADS for model in models]
    with canvas(1 if fast else 2, len(panels) if fast else len(models), height=2.2) as (figure, axes):
        for ax, (model, workload) in zip(axes.flat, panels, strict=True):
            draw(frame, ax, model, workload)
        outside_legend(figure, axes[0, 0], ncols=3)
        session.figure(figure)

    at = rates.set_index(["model", "workload", "system"])[f"rate_at_{LIMIT:g}"]

    def lead(model: str, over: str, workload: str = "ShareGPT") -> float:
        return at[model, workload, "vLLM"] / at[model, workload, over]

    apart = "; ".join(f"{lead(m, APART, 'Alpaca'):.2f}× with {m}" for m in models)
    large = "the KV memory holds so many requests that iterations, not memory, limit every system"
    claims: list[Claim] = []
    for model in models:
        for over in ("Orca (Oracle)", "Orca (Max)"):
            claims.append(EXPECTED[model, over].judge(lead(model, over), why=large if model == "OPT-175B" else ""))
    claims.append(
        EXPECTED["FasterTransformer"].judge(
            max(lead(m, "FasterTransformer", w) for m in models for w in WORKLOADS),
            why="a batch of FasterTransformer is as slow as its longest output: the ratio moves with the limit on the "
            "latency and the tail of the lengths, neither of which is given",
        )
    )
    mixed = (
        "our Orca computes prompts beside decodes, vLLM 0.2 stops decoding for them; if Orca's prompts take "
        f"iterations of their own vLLM's lead is {apart}"
    )
    claims.append(EXPECTED["alpaca"].judge(lead("OPT-13B", "Orca (Oracle)", "Alpaca"), why=mixed))
    if len(models) > 1:
        for orca in ("Orca (Oracle)", "Orca (Pow2)"):
            large_one, small_one = (lead(m, orca, "Alpaca") - 1 for m in ("OPT-175B", "OPT-13B"))
            claims.append(EXPECTED["panel f", orca].judge(large_one / small_one if small_one > 0 else math.nan))
    claims.append(EXPECTED["sudden"].judge(_suddenness(found["OPT-13B", "ShareGPT", "vLLM"])))
    spread = [f"{limit:g} s/token: {_leads(rates, models, limit)}" for limit in LIMITS]
    return session.finish(
        claims,
        notes=[
            f"one constant: an A100 is {share:.3f} times as fast as its roofline says (70 % of the sheet in matrices, "
            "80 % elsewhere), calibrated on vLLM's batch of 30.42 and on nothing else; no host overhead",
            f"a rate is sustained while the mean normalized latency is at most {LIMIT:g} s/token; vLLM over Orca (Max) "
            f"/ (Oracle) on ShareGPT at {'; at '.join(spread)}",
            f"beyond the paper, '{APART}' on Alpaca: vLLM leads by {apart}",
        ],
    )


def _suddenness(found: Curve) -> float:
    """Steepest slope of the last third of the rates, over the mean slope of those before."""
    third = len(found.rate) * 2 // 3  # the paper says "suddenly" without a figure; thirds are our reading
    before = (found.latency[third] - found.latency[0]) / (found.rate[third] - found.rate[0])
    after = (found.latency[-1] - found.latency[third]) / (found.rate[-1] - found.rate[third])
    return float(after / before)


def _leads(rates: Frame, models: list[str], limit: float) -> str:
    at = rates.set_index(["model", "workload", "system"])[f"rate_at_{limit:g}"]
    pairs = [[at[m, "ShareGPT", "vLLM"] / at[m, "ShareGPT", f"Orca ({s})"] for s in ("Max", "Oracle")] for m in models]
    return ", ".join(f"{high:.2f}/{low:.2f}" for high, low in pairs)


if __name__ == "__main__":
    main("vllm/fig12")
