"""What a report draws of a solved serving case: the placement on the cluster, the worst burst, utilisation."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ...planners import ScheduledPlan
from ..world import Panel
from .burst import Burst, worst_burst
from .map import alike, cluster_html, device_use, groups_html, use_html
from .solve import Solved

__all__ = ["burst_html", "panels"]

MAX_LANES, MAX_NAMED, BINS = 32, 7, 60
FATES = ("in time", "late", "rejected")
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


def panels(solved: Solved) -> tuple[Panel, ...]:
    """The drawings of a solved case."""
    burst = worst_burst(solved.result)
    return (_placement(solved, burst), _worst_burst(burst), _utilisation(solved))


def _placement(solved: Solved, burst: Burst) -> Panel:
    cluster = solved.problem.cluster
    placement, when = solved.result.placement, ""
    if isinstance(solved.plan, ScheduledPlan):
        starts = solved.plan.placement.starts
        w = max(0, int(np.searchsorted(starts, burst.begin, side="right")) - 1)
        placement = solved.result.segments[w].placement
        when = f"The placement changes over time; this is window {w + 1} of {len(starts)}, that of the worst burst. "
    kinds = alike(placement)
    models = len(placement.models)
    unused = cluster.n_devices - placement.n_devices
    held = sum(len(g.models) for g in placement.groups)
    caption = (
        f"{when}{_count(cluster.nodes, 'node')} of {cluster.devices_per_node} × {cluster.spec.name}: "
        f"{_count(len(placement.groups), 'group')}, {_count(held, 'replica')} of {_count(models, 'model')}"
        f"{f', {unused} devices unused' if unused > 0 else ''}. A cell is a device: its number, its group (g), and its "
        "pipeline stage (s) where there are several."
    )
    absent = [m for m in solved.problem.models if m not in set(placement.models)]
    if absent:
        caption += f" Not placed anywhere: {', '.join(absent[:5])}{'…' if len(absent) > 5 else ''}."
    if len(kinds) < len(placement.groups):
        caption += " Groups that are alike share a row."
    body = cluster_html(cluster, placement, solved.lost)
    return Panel(
        "Placement", caption, "html", body + groups_html(cluster, placement, solved.problem.profiles, solved.lost)
    )


def _worst_burst(burst: Burst) -> Panel:
    late, rejected, n = burst.count("late"), burst.count("rejected"), len(burst.requests)
    caption = (
        f"Seconds {burst.begin:.4g} to {burst.end:.4g}: of {_count(n, 'request')}, {rejected} rejected, {late} late. "
        + (
            "The window in which most missed their SLO."
            if late + rejected
            else "The busiest window: none missed its SLO."
        )
    )
    return Panel("Worst burst", caption, "html", burst_html(burst))


def _utilisation(solved: Solved) -> Panel:
    cluster = solved.problem.cluster
    use = device_use(solved.result, cluster.n_devices)
    busiest = int(np.argmax(use))
    caption = (
        f"Share of the time that each device computed: {use.mean():.0%} on average, at most {use[busiest]:.0%} (device "
        f"{busiest}), at least {use.min():.0%}."
    )
    return Panel("Utilisation", caption, "html", use_html(cluster, use))


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _count_of(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def burst_html(burst: Burst) -> str:
    """Arrivals per second by fate, a mark for every lost request, and what each stage ran; scales to any width."""
    spans = burst.spans
    lanes: list[tuple[tuple[int, int, int], Any]] = (
        list(spans.groupby(["window", "group", "stage"], sort=True)) if len(spans) else []
    )
    drawn = _busiest(lanes)
    unseen = len(lanes) - len(drawn)
    lanes = drawn
    colour, named = _colours(spans)
    several = len({key[0] for key, _ in lanes}) > 1
    staged = any(key[2] for key, _ in lanes)
    rows = [_arrivals(burst), _losses(burst)]
    for (window, group, stage), part in lanes:
        name = f"{f'w{window + 1} ' if several else ''}g{group}{f'·s{stage}' if staged else ''}"
        rows.append(_row(name, _boxes(burst, part, colour), "lane"))
    keys = "".join(f'<li><span class="swatch m{i}"></span>{escape(str(m))}</li>' for i, m in enumerate(named))
    fates = "".join(f'<li><span class="swatch {_css(f)}"></span>{f}</li>' for f in FATES)
    note = f'<p class="note">{unseen} more stages, less busy, are not drawn.</p>' if unseen > 0 else ""
    alt = f"Timeline of {len(lanes)} stages from second {burst.begin:.4g} to {burst.end:.4g}"
    return (
        f'<ul class="legend">{fates}</ul><div class="lanes" role="img" aria-label="{alt}">{"".join(rows)}'
        f'{_clock(burst)}</div>{note}<ul class="legend">{keys}</ul>'
    )


def _busiest(lanes: list[tuple[tuple[int, int, int], Any]]) -> list[tuple[tuple[int, int, int], Any]]:
    """All lanes of the groups that worked most, as many as there is room for."""
    work: dict[tuple[int, int], float] = {}
    for (window, group, _), part in lanes:
        work[window, group] = work.get((window, group), 0.0) + float((part["end"] - part["start"]).sum())
    kept, room = set[tuple[int, int]](), MAX_LANES
    for key in sorted(work, key=lambda k: (-work[k], k)):
        need = sum(lane[:2] == key for lane, _ in lanes)
        if need <= room or not kept:
            kept.add(key)
            room -= need
    return [(lane, part) for lane, part in lanes if lane[:2] in kept]


def _colours(spans: Any) -> tuple[dict[str, int], list[str]]:
    """Colour of each model, and what the colours mean: models, those that ran longest first, the rest sharing one.

    Where there are many models, instances of one (``bert-1.3b-0``, ``bert-1.3b-1``, …) share a colour.
    """
    if not len(spans):
        return {}, []
    family = {m: m for m in sorted(set(spans["model"]))}
    if len(family) > MAX_NAMED:
        stems = {m: m.rpartition("-")[0] if m.rpartition("-")[2].isdecimal() else m for m in family}
        family = stems if len(set(stems.values())) > 1 else family
    ran: Any = (spans["end"] - spans["start"]).groupby(spans["model"].map(family)).sum()
    ranked = sorted(ran.index, key=lambda name: (-float(ran[name]), name))
    place = {name: min(i, MAX_NAMED) for i, name in enumerate(ranked)}
    others = len(ranked) - MAX_NAMED
    named = ranked[:MAX_NAMED] + ([f"{others} others"] if others > 1 else ranked[MAX_NAMED:])
    return {m: place[name] for m, name in family.items()}, named


def _row(name: str, shapes: str, kind: str, right: str = "") -> str:
    box = '<svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">'
    return f'<div class="row {kind}"><span>{name}</span>{box}{shapes}</svg>{right}</div>'


def _css(fate: str) -> str:
    return fate.replace(" ", "-")


def _at(burst: Burst, times: Any) -> Any:
    """Times as x, 0 … 1000."""
    return np.clip((np.asarray(times, dtype=float) - burst.begin) / (burst.end - burst.begin), 0, 1) * 1000


def _boxes(burst: Burst, part: Any, colour: Mapping[str, int]) -> str:
    left, right = _at(burst, part["start"]), _at(burst, part["end"])
    drawn = [
        f'<rect x="{a:.1f}" width="{max(b - a - 0.7, 0.6):.1f}" height="10" class="m{colour[m]}"/>'
        for a, b, m in zip(left.tolist(), right.tolist(), part["model"], strict=True)
    ]
    return "".join(drawn)


def _arrivals(burst: Burst) -> str:
    edges = np.linspace(burst.begin, burst.end, BINS + 1)
    step = edges[1] - edges[0]
    counts = [
        np.histogram(burst.requests["arrival"][burst.requests["fate"] == fate], edges)[0] / step for fate in FATES
    ]
    peak = max(1e-9, float(np.sum(counts, axis=0).max()))
    base, drawn = np.zeros(BINS), list[str]()
    for fate, rate in zip(FATES, counts, strict=True):
        for i in np.flatnonzero(rate).tolist():
            height = 10 * rate[i] / peak
            top = 10 - 10 * base[i] / peak - height
            drawn.append(
                f'<rect x="{1000 * i / BINS:.1f}" y="{top:.2f}" width="{1000 / BINS - 1.5:.1f}" height="{height:.2f}" '
                f'class="{_css(fate)}"/>'
            )
        base += rate
    return _row(f"arrivals, up to {_count_of(peak)}/s", "".join(drawn), "arrivals")


def _losses(burst: Burst) -> str:
    drawn: list[str] = []
    for fate in FATES[1:]:
        times = burst.requests["arrival"][burst.requests["fate"] == fate]
        places = sorted(set(np.round(_at(burst, times), 0).tolist()))
        y = 0 if fate == "rejected" else 5
        drawn += [f'<rect x="{x:.0f}" y="{y}" width="2.4" height="{10 - y}" class="{_css(fate)}"/>' for x in places]
    return _row("lost", "".join(drawn), "losses")


def _clock(burst: Burst) -> str:
    """Ticks at round seconds."""
    length = burst.end - burst.begin
    step = next((s for s in STEPS if length / s <= 6), length / 5)
    times = np.arange(np.ceil(burst.begin / step), np.floor(burst.end / step) + 1) * step
    marks = "".join(
        f'<i style="left:{x / 10:.2f}%">{t:.6g}{" s" if i == 0 else ""}</i>'
        for i, (x, t) in enumerate(zip(_at(burst, times).tolist(), times.tolist(), strict=True))
    )
    return f'<div class="row clock"><span></span><div>{marks}</div></div>'
