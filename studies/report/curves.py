"""Curves over the axes: one line per planner with its interval, one panel for each value of the other axes."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...worlds.look.figures import DASHES, Style
from .layout import Kind, Panel
from .results import Frame
from .words import plain, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curve_frame", "draw_curves", "in_gib", "round_ticks", "scale_x", "ticks"]

MAX_TICKS = 6


def curve_frame(rows: Frame, panels: Sequence[Panel], metrics: Sequence[str]) -> Frame:
    """The data of a figure: panel, x, planner, metric, mean, half_width, status; NaN where there is no value."""
    import pandas as pd

    parts: list[Frame] = []
    for i, panel in enumerate(panels):
        part = rows
        for path, value in panel.fixed.items():
            part = part[part[path] == value]
        for metric in metrics:
            mean = part.get(metric, math.nan)
            half = part.get(f"{metric}_half_width", math.nan)
            parts.append(
                pd.DataFrame(
                    {"panel": i, "x": part[panel.path], "planner": part["planner"], "metric": metric, "mean": mean,
                     "half_width": half, "status": part["status"]}
                )
            )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def draw_curves(
    data: Frame, ax: Axes, *, looks: Mapping[str, Style], kind: Kind, order: Sequence[Any], joined: bool = True
) -> Axes:
    """Draw one panel of `curve_frame`: lines with bands, or points with bars where x is categories or has one value.

    What has no plan or failed is a cross on the x axis. `order` is every value of x, for categories and ticks.
    """
    planners = list(dict.fromkeys(data["planner"]))
    metrics = list(dict.fromkeys(data["metric"]))
    place = {value: i for i, value in enumerate(order)}
    for i, planner in enumerate(planners):
        look, later = looks[planner], i / max(1, len(planners) - 1)
        # What equals an earlier line lies within it, so that both are seen.
        size = {"markersize": 6.5 - 3 * later, "linewidth": 2.4 - 1.2 * later}
        size = size if len(planners) > 1 and kind != "category" else {}
        for metric, dash in zip(metrics, DASHES, strict=False):
            part = data[(data["planner"] == planner) & (data["metric"] == metric)]
            if kind == "category" and list(order) != planners:
                shift = 0.5 * ((i + 0.5) / len(planners) - 0.5)
                part = part.assign(x=[place[x] + shift for x in part["x"]])
            elif kind == "category":
                part = part.assign(x=[place[x] for x in part["x"]])
            part = part.sort_values("x", kind="stable")
            mark = {"color": look.colour, "marker": look.mark, **size}
            mark |= {} if dash == "-" else {"markerfacecolor": "none"}
            if joined and kind != "category" and len(part) > 1:
                _line(part, ax, scale(metric), mark | {"linestyle": dash}, 0.18 if len(planners) <= 3 else 0.08)
            else:
                _points(part, ax, scale(metric), mark)
            if dash == "-":
                _crosses(part, ax, look)
    scale_x(ax, kind)
    ticks(ax, kind, order)
    return ax


def _line(part: Frame, ax: Axes, factor: float, mark: Mapping[str, Any], opacity: float) -> None:
    """One planner and metric as a line within its band."""
    known = part[part["mean"].notna()]
    x, y, half = known["x"].astype(float), known["mean"] * factor, known["half_width"].fillna(0.0) * factor
    ax.plot(x, y, **mark)
    if (half > 0).any():
        ax.fill_between(x, y - half, y + half, color=mark["color"], alpha=opacity, linewidth=0)


def _points(part: Frame, ax: Axes, factor: float, mark: Mapping[str, Any]) -> None:
    """One planner and metric as points with bars."""
    known = part[part["mean"].notna()]
    half = known["half_width"].fillna(0.0) * factor
    style = {**mark, "linestyle": "none", "capsize": 2.5, "elinewidth": 1.1}
    ax.errorbar(known["x"].astype(float), known["mean"] * factor, yerr=half, **style)


def _crosses(part: Frame, ax: Axes, look: Style) -> None:
    """What has no result, on the x axis."""
    lost = part[part["mean"].isna() & (part["status"] != "ok")]
    if len(lost):
        ax.plot(
            lost["x"].astype(float), [0.0] * len(lost), linestyle="none", marker="x", markersize=6,
            markeredgewidth=1.6, color=look.colour, clip_on=False, zorder=5, transform=ax.get_xaxis_transform(),
        )  # fmt: skip


def scale_x(ax: Axes, kind: Kind) -> None:
    """Equal factors get equal lengths where the axis grows by factors."""
    if kind == "log":
        ax.set_xscale("log", base=2)


def ticks(ax: Axes, kind: Kind, order: Sequence[Any]) -> None:
    """Plain numbers at the values themselves where they are few."""
    if kind == "category":
        texts = [_clipped(plain(v)) for v in order]
        slanted = sum(map(len, texts)) > 30
        ax.set_xticks(range(len(order)), texts, rotation=30 if slanted else 0, ha="right" if slanted else "center")
        ax.set_xlim(-0.5, len(order) - 0.5)
    elif kind == "log" or len(order) <= MAX_TICKS:
        shown = _apart([float(v) for v in order], kind)
        if max(len(plain(v)) for v in shown) > 6:  # drawn at random, not chosen: round numbers say more
            shown = [t for t in round_ticks(order[0], order[-1]) if kind == "log"]
        if shown:
            ax.set_xticks(shown, [plain(v) for v in shown])
            ax.set_xticks([], minor=True)


def in_gib(ax: Axes, path: str, kind: Kind) -> None:
    """Say bytes of memory along x in GiB."""
    if not path.endswith("memory") or kind == "category":
        return
    from matplotlib.ticker import MaxNLocator

    low, high = ax.get_xlim()
    shown = [t for t in MaxNLocator(5).tick_values(low / 2**30, high / 2**30) if low <= t * 2**30 <= high]
    ax.set_xticks([t * 2**30 for t in shown], [plain(float(t)) for t in shown])
    ax.set_xlabel(f"{ax.get_xlabel()} (GiB)")


def round_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten in a range of positive numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) if low > 0 else ()
    found = [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    return found if len(found) <= MAX_TICKS + 1 else [t for t in found if f"{t:e}".startswith("1.")]


def _apart(values: Sequence[float], kind: Kind) -> list[float]:
    """The first and the last value, and those between that have room for their numbers."""
    places = [math.log(v) if kind == "log" else v for v in values]
    gap = (places[-1] - places[0]) / (MAX_TICKS + 1)
    kept = [0]
    for i in range(1, len(values)):
        if places[i] - places[kept[-1]] >= gap and (i == len(values) - 1 or places[-1] - places[i] >= gap):
            kept.append(i)
    return [values[i] for i in dict.fromkeys([*kept, len(values) - 1])]


def _clipped(text: str, length: int = 18) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
