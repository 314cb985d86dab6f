"""Curves over the axes: one line per planner with its interval, one panel for each value of the other axes."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from .chart import Card, Chart
from .look import DASHES, FAINT, Style, canvas, png, svg
from .results import Frame, Results
from .words import LATENCIES, label, plain, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Layout",
    "Panel",
    "curve_frame",
    "curves",
    "draw_curves",
    "kind_of",
    "layout",
    "legend",
    "scale_x",
    "spread",
    "ticks",
]

MAX_PANELS, MAX_LINES, MAX_TICKS = 6, 8, 6

Kind = Literal["linear", "log", "category"]


@dataclass(frozen=True)
class Panel:
    """One panel: an axis along x, at fixed values of the others (empty if they are scattered)."""

    path: str
    fixed: Mapping[str, Any]
    joined: bool = True


@dataclass(frozen=True)
class Layout:
    """Which panels show a design, and how many more there would be."""

    panels: tuple[Panel, ...]
    hidden: int = 0


def layout(rows: Frame, axes: Sequence[str]) -> Layout:
    """Choose x and panels: the number axis with most values runs along x, combinations of the others make panels.

    Where the axes form no grid (a Latin hypercube, a list), each axis has a panel of its own, and points no lines.
    """
    axes = [a for a in axes if rows[a].nunique(dropna=True) > 1] or list(axes[:1])
    if not axes or rows.empty:
        return Layout(())
    by_size = sorted(axes, key=lambda a: (kind_of(rows[a]) == "category", -rows[a].nunique()))
    for x in by_size:
        others = [a for a in axes if a != x]
        if not others:
            return Layout((Panel(x, {}),))
        groups = list(rows.groupby(others, sort=False, dropna=False))
        if 2 * sum(len(part[x].unique()) > 1 for _, part in groups) > len(groups):
            chosen = spread(groups, MAX_PANELS)
            panels = tuple(Panel(x, dict(zip(others, key, strict=True))) for key, _ in chosen)
            return Layout(panels, len(groups) - len(panels))
    shown = by_size[:MAX_PANELS]
    return Layout(tuple(Panel(a, {}, joined=False) for a in shown), len(axes) - len(shown))


def kind_of(values: Frame, *, probes: bool = False) -> Kind:
    """Whether a column is categories, or numbers, and whether these grow by factors rather than by steps.

    Of probes, which are wherever a search went, the range decides.
    """
    known = sorted(set(values.dropna()), key=str)
    if not known or any(isinstance(v, bool | str) for v in known):
        return "category"
    numbers = sorted(float(v) for v in known)
    if len(numbers) < 3 or numbers[0] <= 0:
        return "linear"
    if probes:
        return "log" if numbers[-1] > 12 * numbers[0] else "linear"
    factors = [b / a for a, b in pairwise(numbers)]
    steps = [b - a for a, b in pairwise(numbers)]
    return "log" if max(factors) / min(factors) < max(steps) / min(steps) and numbers[-1] > 4 * numbers[0] else "linear"


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
        look = looks[planner]
        for metric, dash in zip(metrics, DASHES, strict=False):
            part = data[(data["planner"] == planner) & (data["metric"] == metric)]
            if kind == "category":
                shift = 0.5 * ((i + 0.5) / len(planners) - 0.5)
                part = part.assign(x=[place[x] + shift for x in part["x"]])
            part = part.sort_values("x", kind="stable")
            _line(part, ax, look, dash, scale(metric), band=joined and kind != "category" and len(part) > 1)
    scale_x(ax, kind)
    ticks(ax, kind, order)
    return ax


def _line(part: Frame, ax: Axes, look: Style, dash: str, factor: float, band: bool) -> None:
    good = part[part["mean"].notna()]
    x, y, half = good["x"].astype(float), good["mean"] * factor, good["half_width"].fillna(0.0) * factor
    mark: dict[str, Any] = {"color": look.colour, "marker": look.mark}
    if band:
        ax.plot(x, y, linestyle=dash, **mark)
        if (half > 0).any():
            ax.fill_between(x, y - half, y + half, color=look.colour, alpha=0.18, linewidth=0)
    else:
        mark |= {} if dash == "-" else {"markerfacecolor": "none"}
        ax.errorbar(x, y, yerr=half, linestyle="none", capsize=2.5, elinewidth=1.1, **mark)
    lost = part[part["mean"].isna() & (part["status"] != "ok")]
    if len(lost) and dash == "-":
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
        ticks = spread(list(order), MAX_TICKS)
        ax.set_xticks([float(v) for v in ticks], [plain(v) for v in ticks])
        ax.set_xticks([], minor=True)


def _clipped(text: str, length: int = 18) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def curves(results: Results) -> Iterator[Chart]:
    """The report's curves: attainment, latencies; of a world that has neither, its first two metrics."""
    rows, axes = results.design, [a.path for a in results.study.axes if a.path in results.design]
    planners = spread(list(dict.fromkeys(rows["planner"])), MAX_LINES)
    unseen = rows["planner"].nunique() - len(planners)
    rows = rows[rows["planner"].isin(planners)]
    plan = layout(rows, axes)
    wanted = [("attainment",), tuple(m for m in LATENCIES if m in rows and rows[m].notna().any())]
    wanted = [names for names in wanted if names and names[0] in rows]
    for names in wanted or [(m,) for m in results.metrics[:2]]:
        if plan.panels and rows[list(names)].notna().any(axis=None):
            yield _chart(results, rows, plan, names, unseen)


def _chart(results: Results, rows: Frame, plan: Layout, metrics: Sequence[str], unseen: int) -> Chart:
    data = curve_frame(rows, plan.panels, metrics)
    targets = sorted({a.target for a in results.answers if a.target}) if metrics[0] == "attainment" else []
    low, high, logarithmic = _limits(data, metrics[0], targets)
    name = "latency" if metrics[0] in LATENCIES else metrics[0]

    def panel(i: int, ax: Axes) -> None:
        p = plan.panels[i]
        order = list(dict.fromkeys(rows[p.path].dropna()))
        kind = kind_of(rows[p.path])
        order = order if kind == "category" else sorted(order)
        draw_curves(data[data["panel"] == i], ax, looks=results.looks, kind=kind, order=order, joined=p.joined)
        for target in targets:
            ax.axhline(100 * target, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        if logarithmic:
            ax.set_yscale("log")
            _plain_log(ax, low, high)
        ax.set_ylim(low, high)
        ax.set_xlabel(results.names[p.path])
        ax.set_ylabel(label(name) if name != "latency" else "latency (s)")

    cards: list[Card] = []
    for i, p in enumerate(plan.panels):
        title = ", ".join(f"{results.names[path]} {plain(v)}" for path, v in p.fixed.items())
        with canvas() as (figure, (ax,)):
            panel(i, ax)
            alt = f"{name} over {results.names[p.path]}{f' at {title}' if title else ''}, a line per planner"
            cards.append(Card(title, svg(figure, f"{name}-{i}", alt)))
    columns = min(3, len(cards))
    with canvas(-(-len(cards) // columns), columns) as (figure, axes):
        for i, ax in enumerate(axes):
            if i >= len(cards):
                ax.set_visible(False)
                continue
            panel(i, ax)
            ax.set_title(cards[i].title)
        legend(figure, data, results.looks)
        picture = png(figure)
    notes: list[str] = []
    if plan.hidden and plan.panels[0].joined:
        total = len(cards) + plan.hidden
        notes.append(f"{len(cards)} of {total} combinations of the other axes are shown; the table has all.")
    elif not plan.panels[0].joined:
        more = f" {plan.hidden} more axes are not shown." if plan.hidden else ""
        notes.append(f"The points form no grid: each panel shows all of them over one axis.{more}")
    if unseen:
        notes.append(f"{unseen} more planners are not shown.")
    if len(metrics) > 1:
        notes.append("Solid: mean. Dashed or hollow: 99th percentile, where there are requests enough for one.")
    if (data["status"] != "ok").any() and data["mean"].isna().any():
        notes.append("Crosses: no feasible plan, or failed.")
    if targets:
        notes.append(f"Dashed grey: the target, {', '.join(f'{100 * t:g} %' for t in targets)}.")
    interval = (
        f"Bands and bars: {100 * results.study.confidence:g} % intervals over {results.study.replications} draws."
    )
    notes.append(interval if data["half_width"].notna().any() else "One draw each: no interval is known.")
    title = "Latency" if name == "latency" else name.replace("_", " ").capitalize()
    return Chart(name, title, tuple(cards), tuple(dict.fromkeys(data["planner"])), " ".join(notes), data, picture)


def _limits(data: Frame, metric: str, targets: Sequence[float]) -> tuple[float, float, bool]:
    """Range of y for all panels, and whether it is logarithmic."""
    half = data["half_width"].fillna(0.0)
    factor = scale(metric)
    lows, highs = (data["mean"] - half).dropna() * factor, (data["mean"] + half).dropna() * factor
    low, high = float(lows.min()), float(highs.max())
    if metric == "attainment":
        low = min([low, *(100 * t for t in targets)])
        low = max(0.0, low - 0.08 * max(100 - low, 2.0))
        return low, 100 + 0.03 * (100 - low), False
    positive = data["mean"][data["mean"] > 0] * factor
    if metric in LATENCIES and len(positive) and positive.max() > 30 * positive.min():
        return float(positive.min()) / 1.4, high * 1.4, True
    low = 0.0 if not (data["mean"] < 0).any() else low
    return low, high + (0.06 * (high - low) or 1.0), False


def _plain_log(ax: Axes, low: float, high: float) -> None:
    """Ticks 1, 2, 5 × powers of ten, as plain numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    ticks = ticks if len(ticks) <= 7 else [t for t in ticks if f"{t:e}".startswith("1.")]
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.set_yticks([], minor=True)


def legend(figure: Any, data: Frame, looks: Mapping[str, Style]) -> None:
    """One legend above a picture's panels."""
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(data["planner"]))
    handles = [Line2D([], [], color=looks[n].colour, marker=looks[n].mark, label=_clipped(n, 40)) for n in names]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(names), 3))
