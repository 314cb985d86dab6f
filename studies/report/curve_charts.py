"""The report's curves, composed: attainment, latencies, and every planner against the first."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...worlds.look.figures import FAINT
from ..design.ranges import Range
from .chart import Chart, compose
from .curves import curve_frame, draw_curves, in_gib, round_ticks
from .layout import Kind, Layout, kind_of, layout, spread
from .results import Frame, Results
from .words import LATENCIES, label, plain, scale, sized

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curves"]

MAX_LINES, MAX_MARKS = 8, 120


def curves(results: Results) -> Iterator[Chart]:
    """Attainment, latencies, differences to the first planner; of a world without these, its first two metrics."""
    axes = [a.path for a in results.study.axes if a.path in results.design]
    latencies = tuple(m for m in LATENCIES if m in results.metrics)
    if results.answers and not axes:  # attainment is in the questions' own figures, and the base case is no curve
        searched = [a.quantity for a in results.answers if a.quantity in results.paths and a.probes and not a.part]
        if searched and latencies:
            yield from _curve(results, results.along(searched[0]), latencies, searched[:1])
        return
    known = [names for names in (("attainment",), latencies) if names and names[0] in results.metrics]
    for names in known or [(m,) for m in results.metrics[:2]]:
        yield from _curve(results, results.design, names, axes)
    if len(results.paired) and results.study.replications > 1:
        yield from _curve(results, results.paired, ("difference",), axes)


def _curve(results: Results, rows: Frame, metrics: Sequence[str], axes: Sequence[str]) -> Iterator[Chart]:
    """One figure, if there is anything to show: without axes, the planners run along x."""
    planners = spread(list(dict.fromkeys(rows["planner"])), MAX_LINES)
    unseen = rows["planner"].nunique() - len(planners)
    rows = rows[rows["planner"].isin(planners)]
    plan = layout(rows, axes or ["planner"])
    if plan.panels and rows[list(metrics)].notna().any(axis=None):
        yield _chart(results, rows, plan, metrics, unseen)


def _chart(results: Results, rows: Frame, plan: Layout, metrics: Sequence[str], unseen: int) -> Chart:
    data = curve_frame(rows, plan.panels, metrics)
    targets = sorted({a.target for a in results.answers if a.target}) if metrics[0] == "attainment" else []
    drawn = data[data["x"].isin(spread(sorted(set(data["x"]), key=_order), MAX_MARKS))]
    low, high, logarithmic = _limits(data, metrics[0], targets)
    name = "latency" if metrics[0] in LATENCIES else metrics[0]

    def panel(i: int, ax: Axes) -> None:
        p = plan.panels[i]
        order = list(dict.fromkeys(rows[p.path].dropna()))
        kind = _kind(results, p.path, rows[p.path])
        order = order if kind == "category" else sorted(order)
        draw_curves(drawn[drawn["panel"] == i], ax, looks=results.looks, kind=kind, order=order, joined=p.joined)
        for target in targets:
            ax.axhline(100 * target, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        if logarithmic:
            ax.set_yscale("log")
            _plain_log(ax, low, high)
        ax.set_ylim(low, high)
        if metrics[0] == "difference":
            ax.axhline(0, color=FAINT, linewidth=1)
        ax.set_xlabel(results.names[p.path])
        in_gib(ax, p.path, kind)
        if p.path == "planner":  # the legend says who is who
            ax.set_xticks([])
            ax.set_xlabel("")
        ax.set_ylabel({"latency": "latency (s)", "difference": "difference (points of %)"}.get(name, label(name)))

    titles = [
        ", ".join(f"{results.names[path]} {plain(sized(path, v))}" for path, v in p.fixed.items()) for p in plan.panels
    ]
    alts = [
        f"{name} over {results.names[p.path]}{f' at {title}' if title else ''}, a line per planner"
        for p, title in zip(plan.panels, titles, strict=True)
    ]
    notes = [*_left_out(plan, unseen), *_marks(results, data, metrics, targets)]
    if len(drawn) < len(data):
        notes.insert(0, f"{drawn['x'].nunique():,} of {data['x'].nunique():,} values are drawn.")
    heading = {"latency": "Latency", "difference": f"Attainment against {next(iter(results.study.planners))}"}
    title = heading.get(name, name.replace("_", " ").capitalize())
    return compose(name, title, list(zip(titles, alts, strict=True)), panel, " ".join(notes), data, results.looks)


def _order(value: Any) -> tuple[bool, Any]:
    """Numbers before texts, each in order."""
    return (isinstance(value, str), value)


def _kind(results: Results, path: str, values: Frame) -> Kind:
    """As the study says it of a range; else as the values look."""
    for axis in results.study.axes:
        if axis.path == path and isinstance(axis.values, Range):
            return axis.values.scale
    return kind_of(values, probes=any(a.quantity == path for a in results.answers))


def _left_out(plan: Layout, unseen: int) -> Iterator[str]:
    """What the panels do not show."""
    if not plan.panels[0].joined:
        more = f" {plan.hidden} more axes are not shown." if plan.hidden else ""
        yield f"The points form no grid: each panel shows all of them over one axis.{more}"
    elif plan.hidden:
        total = len(plan.panels) + plan.hidden
        yield f"{len(plan.panels)} of {total} combinations of the other axes are shown; the table has all."
    if unseen:
        yield f"{unseen} more planners are not shown."


def _marks(results: Results, data: Frame, metrics: Sequence[str], targets: Sequence[float]) -> Iterator[str]:
    """What lines, crosses and bands mean."""
    if len(metrics) > 1:
        yield "Filled: mean. Hollow, dashed: 99th percentile, where there are requests enough for one."
    if metrics[0] == "difference":
        yield "Attainment minus the first planner's under the same traffic; above zero is better."
    if (data["status"] != "ok").any() and data["mean"].isna().any():
        yield "Crosses: no feasible plan, or failed."
    if targets:
        yield f"Dashed grey: the target, {', '.join(f'{100 * t:g} %' for t in targets)}."
    if data["half_width"].notna().any():
        yield f"Bands and bars: {100 * results.study.confidence:g} % intervals over {results.study.replications} draws."
    else:
        yield "One draw each: no interval is known."


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
    if metric == "difference":
        pad = 0.08 * (high - low) or 1.0
        return min(low, 0.0) - pad, max(high, 0.0) + pad, False
    low = 0.0 if not (data["mean"] < 0).any() else low
    return low, high + (0.06 * (high - low) or 1.0), False


def _plain_log(ax: Axes, low: float, high: float) -> None:
    """Ticks 1, 2, 5 × powers of ten, as plain numbers."""
    ticks = round_ticks(low, high)
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.set_yticks([], minor=True)
