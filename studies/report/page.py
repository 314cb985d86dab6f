"""`page`: the report as one HTML page that needs nothing beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ...worlds import Panel
from ...worlds.look import Style, document, held, items, pairs, section
from ..point import Point
from ..questions.answer import Answer
from .chart import Chart
from .headline import headline_sentence
from .results import Results
from .table import table_html
from .words import number, scale, with_unit

__all__ = ["Winner", "page"]

MAX_LINES_OPEN = 60
FOOTER = (
    "Made by Meshwright. The points behind this page are in points.csv, their means in summary.csv, the figures as "
    "pictures and tables in the folder figures, all beside this page."
)
_TILES = ("attainment", "mean_latency", "p99_latency", "goodput", "utilization", "cost_per_hour")


@dataclass(frozen=True)
class Winner:
    """A point that is drawn: where it comes from, and its drawings."""

    point: Point
    why: str
    panels: tuple[Panel, ...]


def page(
    results: Results,
    charts: Sequence[Chart],
    winners: Sequence[Winner],
    warnings: Sequence[str],
    facts: Mapping[str, str],
) -> str:
    """The whole page.

    Parameters
    ----------
    results : Results
        What it is about.
    charts : sequence of Chart
        Curves, those of questions first.
    winners : sequence of Winner
        What is drawn in full.
    warnings : sequence of str
        What a reader must know.
    facts : Mapping[str, str]
        Name -> value: versions, digests, and what the caller says of the run.
    """
    text = results.study.text.rstrip()
    unfold = " open" if text.count("\n") < MAX_LINES_OPEN else ""
    sections = [
        section("Curves", f'<div class="charts">{"".join(_chart(c, results.looks) for c in charts)}</div>')
        if charts
        else "",
        *(_winner(w, results) for w in winners),
        _breaks(results),
        section("All results", table_html(results)) if len(results.summary) else "",
        section("What to know", f'<ul class="warnings">{items(warnings)}</ul>') if warnings else "",
        section(
            "Study file",
            f"<details{unfold}><summary>{text.count(chr(10)) + 1} lines</summary><pre>{escape(text)}</pre></details>",
        )
        if text
        else "",
        section("Versions, seeds and digests", f'<dl class="facts">{pairs(facts)}</dl>'),
    ]
    return document(results.study.name, "Meshwright study", _hero(results, winners), sections, FOOTER)


def _hero(results: Results, winners: Sequence[Winner]) -> str:
    """The answers in sentences, the first of each question large; without a question the best point; key figures."""
    asked: dict[str, list[Answer]] = {}
    for answer in results.answers:
        if not answer.part:
            asked.setdefault(answer.question, []).append(answer)
    blocks: list[str] = []
    for question, (first, *others) in asked.items():
        more = "".join(_sentence(a.sentence, "answer more", results.looks.get(a.planner)) for a in others)
        blocks.append(
            f'<div><p class="question">{escape(question)}</p>{_sentence(first.sentence, "answer", None)}{more}</div>'
        )
    if not blocks:
        blocks.append(f"<div>{_sentence(_best_sentence(results), 'answer', None)}</div>")
    return f'<div class="answers">{"".join(blocks)}</div>\n{_figures(results, winners)}'


def _sentence(text: str, kind: str, look: Style | None) -> str:
    style = f' style="border-color: var(--c{look.index})"' if look else ""
    size = " long" if len(text) > 240 else " fair" if len(text) > 110 else ""
    return f'<p class="{kind}{size}"{style}>{held(text)}</p>'


def _best_sentence(results: Results) -> str:
    if results.headline is None:
        said = (
            {s: int((results.points["status"] == s).sum()) for s in ("infeasible", "failed")}
            if len(results.points)
            else {}
        )
        what = " and ".join(f"{n:,} {s}" for s, n in said.items() if n)
        reason = next((str(t) for t in results.points["error"] if t), "") if said else ""
        first = f" The first says: {reason}" if reason else ""
        return f"No point has a result{f': {what}' if what else ''}.{first}"
    return headline_sentence(results, results.headline)


def _figures(results: Results, winners: Sequence[Winner]) -> str:
    """Tiles: what the first winner measures, and how many points there are."""
    tiles: list[tuple[str, str, str]] = []
    note = ""
    if winners:
        point = winners[0].point
        row: Any = results.row_of(point)
        where = f", {results.say(point)}" if point.values else ""
        means = "; means over its draws" if results.study.replications > 1 else ""
        note = f'<p class="note">At {escape(point.planner + where)}{means}.</p>'
        known = [m for m in _TILES if m in results.metrics and math.isfinite(float(row[m]))]
        for metric in known[:5]:
            half = float(row.get(f"{metric}_half_width", math.nan))
            small = f"± {number(half * scale(metric), 2)}" if half > 1e-9 * float(row[metric]) else ""
            tiles.append((metric.replace("_", " "), with_unit(metric, float(row[metric])), small))
    status = list(results.points["status"]) if len(results.points) else []
    bad = [f"{status.count(what):,} {what}" for what in ("infeasible", "failed") if what in status]
    tiles.append(("points", f"{len(results.points):,}", ", ".join(bad)))
    drawn = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(small)}</small></dd></div>"
        for name, value, small in tiles
    )
    return f'<dl class="figures">{drawn}</dl>{note}'


def _key(look: Style, name: str) -> str:
    """A planner's line and mark, as figures draw it."""
    marks = {
        "o": '<circle cx="12" cy="6" r="4"/>', "s": '<rect x="8" y="2" width="8" height="8"/>',
        "^": '<path d="M12 1l5 9H7z"/>', "v": '<path d="M12 11l5-9H7z"/>', "D": '<path d="M12 0l6 6-6 6-6-6z"/>',
        "P": '<path d="M10 1h4v3h3v4h-3v3h-4V8H7V4h3z"/>',
        "X": '<path d="M8 1l4 3 4-3 2 2-3 3 3 3-2 2-4-3-4 3-2-2 3-3-3-3z"/>',
        "*": '<path d="M12 0l1.6 4.2H18L14.5 7l1.3 4.5L12 8.8 8.2 11.5 9.5 7 6 4.2h4.4z"/>',
    }  # fmt: skip
    return (
        f'<li><svg class="key" viewBox="0 0 24 12" aria-hidden="true" style="fill: var(--c{look.index}); stroke: '
        f'var(--c{look.index})"><path d="M0 6h24" stroke-width="2"/><g stroke="none">{marks[look.mark]}</g></svg>'
        f"{escape(name)}</li>"
    )


def _chart(chart: Chart, looks: Mapping[str, Style]) -> str:
    legend = "".join(_key(looks[name], name) for name in chart.series)
    cards = "".join(
        f"<figure>{f'<figcaption>{escape(c.title)}</figcaption>' if c.title else ''}{c.svg}</figure>"
        for c in chart.cards
    )
    return (
        f'<section class="chart" style="--cards: {min(len(chart.cards), 3)}"><h3>{escape(chart.title)}</h3>'
        f'<ul class="legend">{legend}</ul>'
        f'<div class="cards">{cards}</div><p class="note">{escape(chart.note)}</p></section>'
    )


def _winner(winner: Winner, results: Results) -> str:
    where = results.say(winner.point)
    title = f"{winner.point.planner}{f' at {where}' if where else ''}"
    panels = "".join(
        f'<figure class="panel"><h3>{escape(p.title)}</h3><figcaption>{escape(p.caption)}</figcaption>{p.body}</figure>'
        for p in winner.panels
    )
    return section(title, f'<p class="note">{escape(winner.why)}</p><div class="panels">{panels}</div>')


def _breaks(results: Results) -> str:
    """What breaks first: for each planner its factors, the most fragile first, by how far they can move."""
    blocks: list[str] = []
    for whole in (a for a in results.answers if a.table):
        parts = [a for a in results.answers if a.part and a.planner == whole.planner and a.question == whole.question]
        most = max((abs(a.change) for a in parts if a.change is not None), default=1.0)
        look = results.looks.get(whole.planner)
        rows = "".join(_rank(a, most) for a in parts)
        colour = f' style="--s: var(--c{look.index})"' if look else ""
        blocks.append(f'<div class="box"{colour}><h3>{escape(whole.planner)}</h3><ol class="ranks">{rows}</ol></div>')
    if not blocks:
        return ""
    note = (
        '<p class="note">One factor is changed at a time. A bar is the smallest change that misses the target: the '
        "shorter, the sooner it breaks.</p>"
    )
    return section("What breaks first", note + "".join(blocks))


def _rank(part: Answer, most: float) -> str:
    """A factor: its change in words, as a bar, and what is left then."""
    change, _, left = part.short.removesuffix(")").partition(" (") if part.short else (part.quantity, "", part.sentence)
    bar = "" if part.change is None else f'<i style="width: {100 * abs(part.change) / (most or 1):.1f}%"></i>'
    holds = '<span class="held">holds</span> ' if part.change is None and not part.error else ""
    return f'<li><b>{held(change)}</b><span class="bar">{bar}</span><p>{holds}{held(left)}</p></li>'
