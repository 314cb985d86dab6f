"""Figure 12 (vLLM): normalized latency over the request rate, three OPT models, two workloads, five systems."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ...traces.lengths import ALPACA, SHAREGPT, LengthProfile
from ..claims import Claim, Expectation, at_least, between, up_to, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import GREY, canvas, outside_legend
from .hinges import serving as hinges
from .hinges.serving import LIMIT
from .servers import MODELLED, SERVERS, Costs
from .serving_rates import COLOURS, LATER, SYSTEMS, Curve, curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORKLOADS: dict[str, LengthProfile] = {"ShareGPT": SHAREGPT, "Alpaca": ALPACA}
LIMITS = (0.25, LIMIT, 1.0)
"""Half and twice the limit as well, to show how much a rate depends on that choice."""
BANDS = {"Orca (Oracle)": (1.7, 2.7), "Orca (Max)": (2.7, 8.0), "FasterTransformer": (22.0, 22.0)}
"""System -> the paper's least and largest lead of vLLM over it (§5.6.2)."""

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

Found = dict[tuple[str, str, str], Curve]
"""(model, workload, system) -> curve."""


def curves(fast: bool, seed: int, progress: Progress = quiet, costs: Costs = MODELLED) -> tuple[Frame, Found]:
    """Measure every system on every workload and model.

    Returns
    -------
    DataFrame
        Columns model, workload, system (the paper's five, and what was later released), rate (requests/s),
        normalized_latency (s/token).
    dict
        (model, workload, system) -> curve.
    """
    import pandas as pd

    jobs = [(m, w, s) for m in SERVERS for w in WORKLOADS for s in (*SYSTEMS, LATER)]
    found: Found = {}
    for k, (model, workload, system) in enumerate(jobs):
        progress(k, len(jobs), f"{system}, {model}, {workload}")
        server = SERVERS[model]
        seconds = _duration(fast, model, workload)
        found[model, workload, system] = curve(
            system, server, WORKLOADS[workload], costs.of(server), seconds, seed, LIMITS[-1]
        )
    progress(len(jobs), len(jobs), "")
    rows = [
        {"model": m, "workload": w, "system": s, "rate": rate, "normalized_latency": latency}
        for (m, w, s), c in found.items()
        for rate, latency in zip(c.rate.tolist(), c.latency.tolist(), strict=True)
    ]
    return pd.DataFrame(rows), found


def _duration(fast: bool, model: str, workload: str) -> float:
    """Seconds of arrivals. The paper has an hour, for OPT-175B 15 minutes."""
    if fast:
        return 300.0 if workload == "Alpaca" else 900.0
    return 900.0 if model == "OPT-175B" else 3600.0


def sustained(found: Found) -> Frame:
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


def leads(rates: Frame, limit: float = LIMIT) -> Frame:
    """What vLLM sustains over each other system: columns model, workload, over, lead."""
    import pandas as pd

    at = rates.set_index(["model", "workload", "system"])[f"rate_at_{limit:g}"]
    return pd.DataFrame(
        [
            {"model": m, "workload": w, "over": s, "lead": at[m, w, "vLLM"] / rate}
            for (m, w, s), rate in at.items()
            if s != "vLLM"
        ]
    )


def draw(frame: Frame, ax: Axes, model: str, workload: str) -> Axes:
    """Draw one panel: latency over rate."""
    for system, colour in COLOURS.items():
        part = frame[(frame.model == model) & (frame.workload == workload) & (frame.system == system)]
        style = "--" if system == LATER else "-"
        ax.plot(
            part.rate, part.normalized_latency, style, marker="o", markersize=3, color=colour,
            label="vLLM 0.2, later released" if system == LATER else system,
        )  # fmt: skip
    ax.set(ylim=(0, 1.0), xlim=(0, None), xlabel="requests/s", ylabel="s/token", title=f"{model}, {workload}")
    return ax


def draw_leads(frame: Frame, ax: Axes, over: str) -> Axes:
    """Draw vLLM's lead over one system: a bar for each model and workload, the paper's range behind them."""
    low, high = BANDS[over]
    if low < high:
        ax.axhspan(low, high, color=GREY, alpha=0.25, label="paper, ShareGPT")
    else:
        ax.axhline(low, color=GREY, linestyle="--")
        ax.annotate(f"paper: up to {low:g}", (2.5, low), ha="right", va="bottom", fontsize=7)
    for shift, workload, hatch in ((-0.2, "ShareGPT", ""), (0.2, "Alpaca", "//")):
        part = frame[(frame.over == over) & (frame.workload == workload)]
        bars = ax.bar(
            [k + shift for k in range(len(part))], part.lead, 0.38, color=COLOURS["vLLM"], hatch=hatch,
            edgecolor="white", label=f"ours, {workload}",
        )  # fmt: skip
        ax.bar_label(bars, fmt="%.2f" if high < 20 else "%.0f", fontsize=6.5)
    ax.set_xticks(range(len(SERVERS)), list(SERVERS), fontsize=8)
    ax.set(title=f"vLLM over {over}", ylabel="×", ylim=(0, 1.12 * max(high, frame[frame.over == over].lead.max())))
    ax.grid(visible=False, axis="x")
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet, fits: Path | None = None) -> Report:
    """Make the figure. Full: traces of an hour (15 minutes for OPT-175B), as the paper's; fast: 15 minutes or five."""
    session, costs = Session("vllm/fig12", fast, out, seed), Costs(fits)
    frame, found = curves(fast, seed, progress, costs)
    session.table(frame)
    rates = session.table(sustained(found), "_sustained")
    lead = session.table(leads(rates), "_leads")
    with canvas(2, len(SERVERS), height=2.2) as (figure, axes):
        for row, workload in zip(axes, WORKLOADS, strict=True):
            for ax, model in zip(row, SERVERS, strict=True):
                draw(frame, ax, model, workload)
        outside_legend(figure, axes[0, 0], ncols=3)
        session.figure(figure)
    with canvas(1, len(BANDS), height=2.6) as (figure, axes):
        for ax, over in zip(axes[0], BANDS, strict=True):
            draw_leads(lead, ax, over)
        outside_legend(figure, axes[0, 0], ncols=3)
        session.figure(figure, "_leads")
    told = () if fits else hinges.found(seed, progress)  # what is moved is of the modelled cost
    spread = [f"{limit:g} s/token: {_told(leads(rates, limit))}" for limit in LIMITS]
    later = ", ".join(f"{m} {w} {x:.2f}×" for m, w, x in _over(lead, LATER))
    return session.finish(
        [*judged(lead, {f.claim: f.needed for f in told}), EXPECTED["sudden"].judge(_suddenness(found))],
        notes=[
            costs.told(),
            f"a rate is sustained while the mean normalized latency is at most {LIMIT:g} s/token; vLLM over Orca (Max) "
            f"/ (Oracle) on ShareGPT at {'; at '.join(spread)}",
            "the paper's engine computes prompts and decodes as one sequence (§5.4.3), as Orca does, and nothing is "
            f"padded; over vLLM 0.2, which was later released with prompts apart, it leads by: {later}",
        ],
        sensitivity=told,
    )


def _over(lead: Frame, system: str) -> list[tuple[str, str, float]]:
    part = lead[lead.over == system]
    return list(zip(part.model, part.workload, part.lead, strict=True))


def judged(lead: Frame, needed: dict[str, str]) -> list[Claim]:
    """The claims on leads; `needed`: a headline -> what its sensitivity says of the paper's figure."""
    at = lead.set_index(["model", "workload", "over"]).lead
    claims: list[Claim] = []
    for model in SERVERS:
        for over in ("Orca (Oracle)", "Orca (Max)"):
            why = needed.get(f"{model}, ShareGPT: vLLM over {over}", "")
            claims.append(EXPECTED[model, over].judge(at[model, "ShareGPT", over], why=why))
    most = {w: max((x, m) for m, v, x in _over(lead, "FasterTransformer") if v == w) for w in WORKLOADS}
    shown = "; ".join(f"{w}: {x:.1f}× ({m})" for w, (x, m) in most.items())
    claims.append(
        EXPECTED["FasterTransformer"].judge(
            max(x for x, _ in most.values()),
            shown=shown,
            why=needed.get("OPT-66B, Alpaca: vLLM over FasterTransformer", ""),
        )
    )
    claims.append(
        EXPECTED["alpaca"].judge(
            at["OPT-13B", "Alpaca", "Orca (Oracle)"], why=needed.get("OPT-13B, Alpaca: vLLM over Orca (Oracle)", "")
        )
    )
    for orca in ("Orca (Oracle)", "Orca (Pow2)"):
        large, small = (at[m, "Alpaca", orca] - 1 for m in ("OPT-175B", "OPT-13B"))
        claims.append(
            EXPECTED["panel f", orca].judge(
                large / small if small > 0 else math.nan,
                why="where iterations are bound by computing and by the host, a larger batch is no faster",
            )
        )
    return claims


def _suddenness(found: Found) -> float:
    """Steepest slope of the last third of the rates, over the mean slope of those before."""
    one = found["OPT-13B", "ShareGPT", "vLLM"]
    third = len(one.rate) * 2 // 3  # the paper says "suddenly" without a figure; thirds are our reading
    before = (one.latency[third] - one.latency[0]) / (one.rate[third] - one.rate[0])
    after = (one.latency[-1] - one.latency[third]) / (one.rate[-1] - one.rate[third])
    return float(after / before)


def _told(lead: Frame) -> str:
    at = lead[lead.workload == "ShareGPT"].set_index(["model", "over"]).lead
    return ", ".join(f"{at[m, 'Orca (Max)']:.2f}/{at[m, 'Orca (Oracle)']:.2f}" for m in SERVERS)


if __name__ == "__main__":
    main("vllm/fig12")
