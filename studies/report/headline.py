"""The report's first sentence where nothing was asked: the best decision, and under which circumstances."""

from __future__ import annotations

import math

from ..headline import Headline
from .results import Results
from .words import cell, number, plain, scale, sized, with_unit

__all__ = ["headline_sentence", "why_drawn"]

MAX_SAID = 3


def headline_sentence(results: Results, found: Headline) -> str:
    """``alpaserve attains 91.2 to 99.8 % with devices 12 over 3 circumstances (cv 1 to 4), the best of …``."""
    metric = "attainment" if "attainment" in results.metrics else results.metrics[0]
    verb = "attains" if metric == "attainment" else f"reaches {metric}"
    values = dict(found.point.values)
    said = [f"{results.names.get(p, p)} {plain(sized(p, cell(values[p])), 4)}" for p in found.decision if p in values]
    with_what = f" with {', '.join(said)}" if said else ""
    if not found.circumstances or found.met == 1:
        row = results.row_of(found.point)
        half = math.nan if row is None else float(row.get(f"{metric}_half_width", math.nan))
        where = f" with {results.say(found.point)}" if found.point.values else ""
        best = f", the best of {found.rivals:,} combinations" if found.rivals > 1 else ""
        return f"{found.point.planner} {verb} {with_unit(metric, found.low, half)}{where}{best}."
    over = f"over {found.met:,} circumstances ({_ranges(results, found)})"
    low = number(found.low * scale(metric))
    span = with_unit(metric, found.low) if found.low == found.high else f"{low} to {with_unit(metric, found.high)}"
    if found.rivals == 1:
        every = "" if len(results.study.planners) == 1 else "all points together: "
        return f"{every}{found.point.planner if not every else metric} {verb if not every else 'is'} {span} {over}."
    wins = (
        f"; none does better in {found.wins:,} of them" if found.wins < found.met else ", and none does better in any"
    )
    return (
        f"{found.point.planner} {verb} {span}{with_what} {over}: on average the best of {found.rivals:,} "
        f"decisions under the same ones{wins}."
    )


def why_drawn(found: Headline) -> str:
    """Why this point is drawn."""
    if found.circumstances and found.met > 1:
        return "The decision that does best on average over the circumstances; drawn under the first of them."
    return "The decision with the highest attainment; among equals, that with fewest devices."


def _ranges(results: Results, found: Headline) -> str:
    """What varies of the circumstances: ends of numbers, and how many of other values."""
    parts: list[str] = []
    for path in found.circumstances:
        column = [v for v in results.design[path].tolist() if v is not None and v == v]
        distinct = list(dict.fromkeys(column))
        if len(distinct) < 2:
            continue
        name = results.names.get(path, path)
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in distinct):
            low, high = (plain(sized(path, end), 4) for end in (min(distinct), max(distinct)))
            parts.append(f"{name} {low} to {high}")
        elif len(distinct) <= MAX_SAID:
            parts.append(f"{name} {', '.join(plain(v, 4) for v in distinct)}")
        else:
            parts.append(f"{len(distinct):,} values of {name}")
    return "; ".join(parts) if parts else "their replications"
