"""Which of cache, tensor and data parallelism is faster by how much, and what moves that: host, moves, lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ...profiles import LinkSpec
from ..report import Frame
from ..sensitivity import Sensitivity, Swing
from .decode_steps import DEFAULT, MARGIN, PCIE, Assumed, Regime, cells, equal, exponential, ratios
from .shards import TABLES

__all__ = [
    "BATCHES",
    "HOST_S",
    "LENGTHS",
    "LONG",
    "falls",
    "hinges",
    "holding",
    "orderings",
    "stay_range",
    "stays",
    "sweep",
]

LENGTHS = (10_000, 20_000, 40_000, 80_000)
BATCHES = (32, 128, 512)
LONG = 40_000
"""Mean tokens from which contexts count as long."""
HOST_S = tuple(1e-9 * ns for ns in (0.1, 1, 2, 4, 6, 8, 10, 12, 15, 20, 30, 37, 50, 75, 94))
"""Host times of an entry of a block table that are swept; `TABLES` are its ends that were measured for lists."""
STAYS = (1, 2, 5, 10, 20, 50, 100, 200, 500, math.inf)
"""Steps between two moves of what does not fit that are swept."""


def orderings(frame: Frame) -> dict[str, float]:
    """The least ratios of throughput that the claims are about, and the largest TP/CP at 10K tokens."""
    cp_tp, tp_dp, cp_dp = (ratios(frame, a, b) for a, b in (("CP", "TP"), ("TP", "DP"), ("CP", "DP")))
    return {
        "CP over TP": float(cp_tp.loc[LONG:].to_numpy().min()),
        "CP over TP, all fits": float(cp_tp.loc[LONG, BATCHES[0]]),
        "TP over DP": float(tp_dp.loc[LONG:].to_numpy().min()),
        "CP over DP": float(cp_dp.loc[LONG:].to_numpy().min()),
        "everywhere": float(cp_tp.to_numpy().min()),
        "TP over CP at 10K": float(1 / cp_tp.loc[LENGTHS[0]].min()),
    }


def sweep(regime: Regime, draws: int, seed: int) -> Frame:
    """The orderings over the host time of an entry: columns entry_ns, ordering, ratio."""
    import pandas as pd

    rows = []
    for entry_s in HOST_S:
        found = orderings(cells(regime, LENGTHS, BATCHES, draws, seed, replace(DEFAULT, entry_s=entry_s)))
        rows += [{"entry_ns": 1e9 * entry_s, "ordering": name, "ratio": ratio} for name, ratio in found.items()]
    return pd.DataFrame(rows)


def holding(swept: Frame, ordering: str) -> str:
    """At which of the host times that were swept an ordering holds by the margin, in words."""
    part = swept[swept.ordering == ordering]
    held = part.entry_ns[part.ratio >= 1 + MARGIN]
    if not len(held):
        return f"at none (at most {part.ratio.max():.3f}×)"
    return f"from {held.min():g} to {held.max():g} ns"


def falls(frame: Frame) -> float:
    """CP's throughput at the largest batch over its best, the largest of the lengths above 10K: 1 if it never falls."""
    cp = frame[frame.system == "CP"].pivot_table(index="tokens", columns="batch", values="throughput").loc[LENGTHS[1] :]
    return float((cp[cp.columns.max()] / cp.max(axis=1)).max())


def stays(regime: Regime, draws: int, seed: int) -> Frame:
    """Over the steps that a request stays where not all fit: columns stay_steps, the orderings, and falls (`falls`)."""
    import pandas as pd

    rows = []
    for steps in STAYS:
        frame = cells(regime, LENGTHS, BATCHES, draws, seed, replace(DEFAULT, stay_steps=steps))
        rows.append({"stay_steps": steps, **orderings(frame), "falls": falls(frame)})
    return pd.DataFrame(rows)


def stay_range(swept: Frame) -> str:
    """The stays by which CP leads TP from 40K on by the margin, and throughput still falls with the batch, in words."""
    both = swept[(swept["CP over TP"] >= 1 + MARGIN) & (swept.falls <= 1 - MARGIN)].stay_steps
    return f"{both.min():g} to {both.max():g} steps" if len(both) else "none of the stays that were swept"


def hinges(regime: Regime, draws: int, seed: int, host: Frame, moves: Frame) -> list[Sensitivity]:
    """Both headlines beside what moves them, each alone."""

    def at(name: str, assumed: Assumed = DEFAULT, lengths: Regime = regime) -> float:
        return orderings(cells(lengths, LENGTHS, BATCHES, draws, seed, assumed))[name]

    def swings(name: str) -> tuple[Swing, ...]:
        changed: Sequence[tuple[str, str, str, Assumed, Assumed]] = (
            (f"host, {1e9 * DEFAULT.entry_s:g} ns an entry", "10 ns", f"{1e9 * TABLES[1]:g} ns",
             replace(DEFAULT, entry_s=10e-9), replace(DEFAULT, entry_s=TABLES[1])),
            (f"attention's ramp, {DEFAULT.ramp_tokens:g} tokens", "0", "500",
             replace(DEFAULT, ramp_tokens=0), replace(DEFAULT, ramp_tokens=500)),
            ("what does not fit moves every step", "every 100", "waits",
             replace(DEFAULT, stay_steps=100), replace(DEFAULT, stay_steps=math.inf)),
        )  # fmt: skip
        found = [Swing(what, low, high, at(name, a), at(name, b)) for what, low, high, a, b in changed]
        spread = at(name, lengths=equal), at(name, lengths=exponential)
        return (*found, Swing("lengths' spread", "all equal", "exponential", *spread))

    links = (at("CP over TP", replace(DEFAULT, link=link)) for link in (LinkSpec(math.inf, 0.0), PCIE))
    each = at("TP over DP", replace(DEFAULT, each=True))
    batch = Swing("maximum batch of all instances", "of each", "as it is", each, at("TP over DP"))
    ours = orderings(cells(regime, LENGTHS, BATCHES, draws, seed))
    return [
        Sensitivity(
            "CP/TP, least from 40K tokens on", 1 + MARGIN, ours["CP over TP"], "ratio of throughputs",
            (*swings("CP over TP"), Swing("links between GPUs, a bridge", "no cost", "PCIe", *links)),
            f"moves every {stay_range(moves)} (CP leads, and throughput still falls with the batch); by host time "
            f"alone {holding(host, 'CP over TP')}",
        ),
        Sensitivity(
            "TP/DP, least from 40K on", 1 + MARGIN, ours["TP over DP"], "ratio of throughputs",
            (*swings("TP over DP"), batch),
            f"an entry of a block table {holding(host, 'TP over DP')}; with a maximum batch of each instance "
            f"{each:.2f}×",
        ),
    ]  # fmt: skip
