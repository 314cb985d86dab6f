"""What a report draws of a solved training case: the plan in words, what each mesh does, how full its memory is."""

from __future__ import annotations

from html import escape

import numpy as np

from ...simulator.timeline import Timeline
from ..world import Panel
from .solve import TrainingSolved

__all__ = ["panels"]

MOST_LANES, MOST_SPANS, COLOURS = 32, 1_500, 8
WIDTH = 1000
"""Units of a lane's drawing, which scales to any width."""


def panels(solved: TrainingSolved) -> tuple[Panel, ...]:
    """The drawings of a solved case."""
    return (_plan(solved), _iteration(solved), _memory(solved))


def _plan(solved: TrainingSolved) -> Panel:
    lines = solved.plan.explain(operators="none").splitlines()
    # What the planner took of this machine's time is no part of the answer: the same study gives the same page.
    body = "\n".join(line for line in lines if not line.startswith("planned in "))
    return Panel("Plan", "What was decided, stage by stage, and what the planner predicts.", "html",
                 f"<pre>{escape(body)}</pre>")  # fmt: skip


def _iteration(solved: TrainingSolved) -> Panel:
    result = solved.result
    timeline = result.timeline()
    meshes = result.program.n_meshes
    busiest = np.argsort(-timeline.busy()[:meshes], kind="stable")[:MOST_LANES]
    drawn = sorted(int(lane) for lane in busiest)
    until, cut = _until(timeline, drawn, result.seconds)
    rows = "".join(_row(f"mesh {lane}", _boxes(timeline, lane, until)) for lane in drawn)
    shown = sorted({int(n) for lane in drawn for n in timeline.name[timeline.lane == lane]})
    keys = "".join(
        f'<li><span class="swatch m{n % COLOURS}"></span>{escape(timeline.names[n])}</li>' for n in shown
    )  # fmt: skip
    caption = (
        f"{'The beginning of one' if cut else 'One'} iteration, which takes {result.seconds:.4g} s: devices compute "
        f"{1 - result.bubble:.1%} of it."
        + (f" The {len(drawn)} busiest of {meshes} meshes." if len(drawn) < meshes else "")
    )
    alt = f"Timeline of {len(drawn)} meshes over {until:.4g} seconds"
    body = f'<div class="lanes" role="img" aria-label="{alt}">{rows}</div><ul class="legend">{keys}</ul>'
    return Panel("One iteration", caption, "html", body)


def _until(timeline: Timeline, lanes: list[int], end: float) -> tuple[float, bool]:
    """How much of an iteration is drawn, seconds: all, or what has so many spans; and whether it is cut."""
    starts = np.sort(timeline.start[np.isin(timeline.lane, lanes)])
    return (float(starts[MOST_SPANS]), True) if len(starts) > MOST_SPANS else (end, False)


def _row(name: str, shapes: str, right: str = "") -> str:
    box = f'<svg viewBox="0 0 {WIDTH} 10" preserveAspectRatio="none" aria-hidden="true">'
    return f'<div class="row lane"><span>{name}{right}</span>{box}{shapes}</svg></div>'


def _boxes(timeline: Timeline, lane: int, until: float) -> str:
    mine = np.flatnonzero((timeline.lane == lane) & (timeline.start < until))
    left = WIDTH * timeline.start[mine] / until
    right = WIDTH * np.minimum(timeline.end[mine], until) / until
    return "".join(
        f'<rect x="{a:.1f}" width="{max(b - a - 0.5, 0.4):.1f}" height="10" class="m{n % COLOURS}"/>'
        for a, b, n in zip(left.tolist(), right.tolist(), timeline.name[mine].tolist(), strict=True)
    )


def _memory(solved: TrainingSolved) -> Panel:
    result = solved.result
    held = result.memory()
    full = held.peak / held.limit_bytes
    fullest = np.argsort(-full, kind="stable")[:MOST_LANES]
    drawn = sorted(int(mesh) for mesh in fullest)
    rows = "".join(
        _row(f"mesh {mesh}", _filled(held.seconds[mesh], held.n_bytes[mesh] / held.limit_bytes[mesh], result.seconds),
             f", {full[mesh]:.0%}")
        for mesh in drawn
    )  # fmt: skip
    peak, limit = float(held.peak[fullest[0]]), float(held.limit_bytes[fullest[0]])
    its = "its memory" if len(set(held.limit_bytes.tolist())) > 1 else f"its memory, {limit / 2**30:.4g} GiB"
    caption = (
        f"How full a device of each mesh is over the iteration; the height of a lane is {its}. "
        f"At most {peak / 2**30:.4g} GiB are taken, {peak / limit:.1%}."
    )
    alt = f"Memory of {len(drawn)} meshes over {result.seconds:.4g} seconds"
    return Panel("Memory", caption, "html", f'<div class="lanes" role="img" aria-label="{alt}">{rows}</div>')


def _filled(seconds: np.ndarray, share: np.ndarray, end: float) -> str:
    """Steps as bars; where there are many, the highest of those that fall on one unit."""
    place = np.clip((WIDTH * seconds / end).astype(int), 0, WIDTH - 1)
    tops = np.zeros(WIDTH)
    now = 0.0
    last = 0
    for x, y in zip(place.tolist(), share.tolist(), strict=True):
        tops[last:x] = np.maximum(tops[last:x], now)
        now, last = y, x
        tops[x] = max(tops[x], y)
    tops[last:] = np.maximum(tops[last:], now)
    edges = np.flatnonzero(np.diff(tops, prepend=-1.0))
    ends = np.append(edges[1:], WIDTH)
    return "".join(
        f'<rect x="{a}" width="{b - a}" y="{10 * (1 - min(h, 1.0)):.2f}" height="{10 * min(h, 1.0):.2f}" class="m0"/>'
        for a, b, h in zip(edges.tolist(), ends.tolist(), tops[edges].tolist(), strict=True)
        if h > 0
    )
