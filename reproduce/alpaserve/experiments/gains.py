"""Where systems cross 99 % in Figure 12, what AlpaServe gains over the better baseline, and what moves that."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...report import Frame
from ...sensitivity import Sensitivity, Swing
from .systems import GOAL, SYSTEMS, crossing

__all__ = ["ROWS", "largest", "levels", "sensitivity"]

ROWS: Mapping[str, str] = {"devices": "devices", "rate": "rate (requests/s)", "cv": "CV", "slo": "SLO scale"}


def levels(frame: Frame, *, between: bool = True) -> Frame:
    """Where every system crosses 99 %: columns column, varied, then a column per system, gain, and bound.

    ``gain`` is AlpaServe's advantage over the better baseline, NaN where AlpaServe never gets there; where no baseline
    does, or where AlpaServe still does at the grid's end, that end stands for it, the gain is a lower bound, and
    ``bound`` is true. Crossings lie `between` points of the grid, or at the last point with 99 %, as the authors' plots
    have them.
    """
    import pandas as pd

    rows = []
    for (name, varied), part in frame.groupby(["column", "varied"], sort=False):
        rising = varied in ("devices", "slo")
        wide = part.pivot(index="x", columns="system", values="attainment").sort_index()
        if not between:
            wide = wide.where(wide >= GOAL, -math.inf)
        x = wide.index.to_list()
        at = {s: crossing(x, wide[s].to_list(), rising=rising) for s in SYSTEMS if s in wide}
        ours = at["AlpaServe"]
        theirs = [t for s, t in at.items() if s != "AlpaServe"]
        if rising:
            best = min(min(theirs), x[-1])
            gain = best / ours if math.isfinite(ours) else math.nan
        else:
            best = max([t for t in theirs if not math.isnan(t)], default=x[0])
            gain = ours / best
        ended = ours == (x[0] if rising else x[-1])
        bound = ended or all(math.isnan(t) or math.isinf(t) for t in theirs)
        rows.append({"column": name, "varied": varied} | at | {"gain": gain, "bound": bound})
    return pd.DataFrame(rows)


def largest(reached: Frame, varied: str) -> tuple[float, str]:
    """The largest gain of one row, and how it is shown.

    Where no baseline reaches 99 %, or AlpaServe never leaves it, the end of the grid decides how large a bound is: such
    gains are shown, and count only if there is no other.
    """
    mine = reached[(reached.varied == varied) & reached.gain.notna()]
    measured, bounds = mine[~mine.bound], mine[mine.bound]
    told = [f"{r.gain:.2f}× ({r.column})" for r in measured.nlargest(1, "gain").itertuples()]
    told += [f"≥ {r.gain:.2f}× ({r.column})" for r in bounds.nlargest(1, "gain").itertuples()]
    judged = measured if len(measured) else bounds
    return (float(judged.gain.max()) if len(judged) else math.nan), "; ".join(told) or "none"


PRINTED = {"devices": 2.3, "rate": 10.0, "cv": 6.0, "slo": 2.5}


def sensitivity(frame: Frame, heavier: Frame) -> list[Sensitivity]:
    """The four headlines by which baseline is the better one: the oracle that swaps at no cost, or the static one.

    `heavier` has rows of some columns at twice their load, which the paper does not print.
    """
    found: list[Sensitivity] = []
    ours = levels(frame)
    twice = levels(heavier) if len(heavier) else None
    for varied, paper in PRINTED.items():
        value = largest(ours, varied)[0]
        alone = {
            s: largest(levels(frame[frame.system.isin(("AlpaServe", s))]), varied)[0]
            for s in SYSTEMS
            if s != "AlpaServe"
        }
        if not math.isfinite(value):
            continue
        low, high = alone
        at_points = largest(levels(frame, between=False), varied)[0]
        swings = [
            Swing("the better of two baselines", low, high, alone[low], alone[high]),
            Swing("crossings between points", "as it is", "at points", value, at_points),
        ]
        if twice is not None and varied in set(twice.varied):
            same = largest(ours[ours.column.isin(twice.column)], varied)[0]
            load = "load of " + ", ".join(dict.fromkeys(twice.column))
            swings.append(Swing(load, "as it is", "twice", same, largest(twice, varied)[0]))
        ends = [x for x in alone.values() if math.isfinite(x)]
        inside = bool(ends) and min(ends) <= paper <= max(ends)
        needed = (
            "the paper's lies between the two baselines'" if inside else "the paper's lies outside of both baselines'"
        )
        moved = swings[-1].at_high
        if len(swings) > 2 and math.isfinite(moved):
            needed += f"; at twice the load of MAF1 it is {moved:.2f}×"
        found.append(Sensitivity(f"{ROWS[varied]} at 99 %, the largest gain", paper, value, "×", tuple(swings), needed))
    return found
