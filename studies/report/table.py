"""The report's table: a row per values and planner, sorted and filtered on the page."""

from __future__ import annotations

import math
import re
from html import escape
from typing import Any

from .notes import split_notes
from .results import Frame, Results, internal
from .words import label, number, plain, scale, sized

_SAID = re.compile(r" refused: |^\d+ of \d+ replications (infeasible|failed), ")

__all__ = ["chosen_rows", "table_html"]

MAX_ROWS, MAX_BAD, MAX_REASON = 500, 150, 300


def chosen_rows(rows: Frame) -> Frame:
    """At most `MAX_ROWS`: those that have no result first in the choice, then the first others; in their order."""
    if len(rows) <= MAX_ROWS:
        return rows
    bad = rows.index[rows["status"] != "ok"][:MAX_BAD]
    good = rows.index.difference(bad, sort=False)[: MAX_ROWS - len(bad)]
    return rows.loc[sorted([*bad, *good])]


def table_html(results: Results) -> str:
    """The table with its filter, and a note where not all rows are in it."""
    every = results.summary
    rows = chosen_rows(every)
    metrics = [m for m in results.metrics if m in rows and rows[m].notna().any()]
    paths = [p for p in results.paths if rows[p].notna().any() and not internal(p)]
    told = [_told(row) for _, row in rows.iterrows()]
    heads = [(results.names[p], _numeric(rows[p])) for p in paths] + [("planner", False)]
    several = set(rows["status"]) != {"ok"}
    heads += [("status", False)] * several + [(label(m), True) for m in metrics] + [("notes", False)] * any(told)
    head = "".join(
        f'<th scope="col" aria-sort="none"{" class=num" if num else ""}><button type="button">{escape(name)}</button>'
        for name, num in heads
    )
    body: list[str] = []
    for (_, row), notes in zip(rows.iterrows(), told, strict=True):
        cells = [_value(row[p], p) for p in paths] + [f'<td class="name">{escape(str(row["planner"]))}</td>']
        if several:
            cells.append(_status(row))
        cells += [_metric(m, row) for m in metrics]
        if any(told):
            cells.append(f'<td class="text">{escape(notes)}</td>' if notes else "<td></td>")
        bad = ' class="bad"' if row["status"] != "ok" else ""
        body.append(f'<tr data-status="{row["status"]}"{bad}>{"".join(cells)}</tr>')
    options = "".join(f'<option value="{s}">{s}</option>' for s in sorted(set(rows["status"])))
    note = f" {len(rows)} of {len(every):,} rows are here, those without a result first; summary.csv has all."
    note = note if len(rows) < len(every) else ""
    n, width = results.study.replications, f"{100 * results.study.confidence:g} %"
    drawn = f"A row is the mean over {n} draws, ± half the {width} interval." if n > 1 else "A row is one draw."
    return (
        f'<p class="note">{drawn}{note}</p>'
        '<div class="tools" id="tools"><label>Filter<input type="search" placeholder="words in a row"></label>'
        f'<label>Status<select><option value="">all</option>{options}</select></label>'
        '<output aria-live="polite"></output></div>'
        '<div class="scroll" role="region" aria-label="All results" tabindex="0">'
        '<table data-sortable="tools"><caption class="visually-hidden">All results</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _numeric(values: Frame) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values.dropna().tolist())


def _known(value: Any) -> bool:
    return value is not None and value == value


def _value(value: Any, path: str) -> str:
    """A cell of an axis; ``data-v`` is what it sorts by."""
    if value in ("[]", "{}"):
        return "<td>–</td>"
    if isinstance(value, str):
        return f'<td class="name" title="{escape(value)}">{escape(value)}</td>'
    if isinstance(value, bool) or not _known(value):
        return f"<td>{plain(value)}</td>"
    return f'<td class="num" data-v="{float(value)!r}">{plain(sized(path, value))}</td>'


def _metric(name: str, row: Any) -> str:
    """A metric with half its interval; where it was refused, why."""
    mean, half = float(row[name]), float(row.get(f"{name}_half_width", math.nan))
    if math.isnan(mean):
        why = next((n for n in split_notes(row["notes"]) if n.startswith(f"{name} refused")), "")
        text = f'<abbr title="{escape(why)}">refused</abbr>' if why else "–"
        return f'<td class="num" data-v="">{text}</td>'
    half = 0.0 if half < 1e-9 * abs(mean) else half  # the last bits of equal draws
    spread = f' <span class="pm">± {number(half * scale(name), 2)}</span>' if math.isfinite(half) else ""
    return f'<td class="num" data-v="{mean!r}">{number(mean * scale(name))}{spread}</td>'


def _status(row: Any) -> str:
    """The status, with the reason where there is no result."""
    why = f'<p class="note">{escape(_cut(row["reason"]))}</p>' if row["reason"] else ""
    return f"<td{' class=text' if why else ''}>{row['status']}{why}</td>"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}…"


def _told(row: Any) -> str:
    """What the last column says: notes that no cell of the row says already."""
    # A metric that no row knows has no column to say why in; the warnings below the table do.
    return "; ".join(n for n in split_notes(row["notes"]) if n and not _SAID.search(n))
