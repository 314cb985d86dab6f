"""`page`: a planner's answer as one HTML page that needs nothing beside it."""

from __future__ import annotations

from html import escape

from ....simulator.metrics import Estimate
from ...look import document, held, items, pairs, section
from .front import front_svg
from .told import Row, Told

__all__ = ["page"]

FOOTER = "Made by Meshwright. The plan itself is a file beside this page if one was asked for (--out)."
MOST_ROWS, MOST_REJECTED = 500, 60


def page(told: Told) -> str:
    """The whole page: the answer, what it rests on, the front, the plan, why the others lost."""
    plan = told.plan
    names = ", ".join(model.name for model in plan.models)
    models = list(dict.fromkeys(row.model for row in told.rows))
    sections = [
        section("What this rests on", f'<ul class="warnings">{items(told.assumptions)}</ul>'),
        section("What is reached for what", _charts(told, models)) if models else "",
        section("Everything that was tried to the end", _table(told)) if told.rows else "",
        section("The plan", f"<pre>{escape(plan.explain())}</pre>"),
        section("Why the others lost", _reasons(told.lost)) if told.lost else "",
        section("Engines that are not possible", _rejected(told)) if told.rejected else "",
        section("Planner, seed and traffic", f'<dl class="facts">{pairs(_facts(told))}</dl>'),
    ]
    return document(f"{names} on {plan.mixed}", "Meshwright plan", _hero(told), sections, FOOTER)


def _hero(told: Told) -> str:
    """The answer in a sentence for each model, and its figures."""
    plan, blocks = told.plan, list[str]()
    for model in plan.models:
        row = next((r for r in told.rows if r.chosen and r.model == model.name), None)
        limits = [f"{n} {v:g} s" for n, v in (("TTFT", model.slo_ttft_s), ("TPOT", model.slo_tpot_s)) if v is not None]
        within = f" within {' and '.join(limits)}" if limits else ""
        what = row.what if row is not None else "; ".join(map(str, plan.deployments_of(model.name)))
        reached = f": {_share(row.attained)} of the requests{within}" if row is not None else ""
        text = f"{model.name}: {what}{reached}"
        size = " long" if len(text) > 240 else " fair" if len(text) > 110 else ""
        blocks.append(f'<div><p class="answer{size}">{held(text)}</p></div>')
    tiles = [("devices", f"{len(plan.used_devices)} of {plan.mixed.n_devices}")]
    if plan.price_per_hour:
        tiles.append(("price", f"{plan.price_per_hour:,.4g} per hour"))
    said = plan.predicted
    if "mean_power_w" in said:
        tiles.append(("power, estimated", f"{said['mean_power_w'] / 1000:.3g} kW"))
    tiles += [(name, f"{said[name]:.4g}{unit}") for name, unit in (("goodput", " /s"),) if name in said]
    if "attainment" in said:
        tiles.append(("attainment, first seed", f"{said['attainment']:.2%}"))
    drawn = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in tiles)
    return f'<div class="answers">{"".join(blocks)}</div>\n<dl class="figures">{drawn}</dl>'


def _charts(told: Told, models: list[str]) -> str:
    target = f" Dotted: the target, {told.target:.4g}." if told.target == told.target else ""
    note = (
        "Joined: what nothing that counts less reaches. Large: the answer. Bars: 95 % intervals over seeds; all saw "
        f"the same requests.{target}"
    )
    return '<div class="charts">' + "".join(
        f'<section class="chart" style="--cards: 1"><h3>{escape(model)}</h3><div class="cards"><figure>'
        f'{front_svg(told, model)}</figure></div><p class="note">{escape(note)}</p></section>'
        for model in models
    ) + "</div>"  # fmt: skip


HEADS = (
    ("model", False), ("served how", False), ("devices", True), ("price per hour", True), ("power, W", True),
    ("good, %", True), ("against the answer, %", True), ("goodput, /s", True), ("TTFT p90, ms", True),
    ("TPOT p90, ms", True),
)  # fmt: skip


def _table(told: Told) -> str:
    """The table with its filter: a row for each way that was tried to the end."""
    rows = told.rows[:MOST_ROWS]
    head = "".join(
        f'<th scope="col" aria-sort="none"{" class=num" if num else ""}><button type="button">{escape(name)}</button>'
        for name, num in HEADS
    )
    body = "".join(_row(told, row) for row in rows)
    more = f" {len(rows)} of {len(told.rows)} rows are here." if len(rows) < len(told.rows) else ""
    return (
        f'<p class="note">Means over seeds, ± half the 95 % interval; differences are paired.{more}</p>'
        '<div class="tools" id="tools"><label>Filter<input type="search" placeholder="words in a row"></label>'
        '<label>Rows<select><option value="">all</option><option value="front">the front</option>'
        '<option value="other">others</option></select></label><output aria-live="polite"></output></div>'
        '<div class="scroll" role="region" aria-label="What was tried" tabindex="0">'
        '<table data-sortable="tools"><caption class="visually-hidden">What was tried</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(told: Told, row: Row) -> str:
    name = f"{row.what} (the answer)" if row.chosen else row.what
    cells = [
        f'<td class="name">{escape(row.model)}</td>',
        f'<td class="text">{escape(name)}</td>',
        _number(row.devices, f"{row.devices}"),
        _number(row.price_per_hour or None, f"{row.price_per_hour:,.4g}"),
        _number(row.power_w or None, f"{row.power_w:,.0f}"),
        _estimate(row.attained, 100.0),
        _estimate(row.gap, 100.0),
        _estimate(row.goodput, 1.0),
        _number(row.ttft_p90_s, f"{1e3 * row.ttft_p90_s:.4g}"),
        _number(row.tpot_p90_s, f"{1e3 * row.tpot_p90_s:.4g}"),
    ]
    return f'<tr data-status="{"front" if row.front or row.chosen else "other"}">{"".join(cells)}</tr>'


def _number(value: float | None, text: str) -> str:
    if value is None or value != value or abs(value) == float("inf"):
        return '<td class="num" data-v="">–</td>'
    return f'<td class="num" data-v="{float(value)!r}">{escape(text)}</td>'


def _estimate(found: Estimate, scale: float) -> str:
    half = "" if found.n == 1 else f' <span class="pm">± {scale * found.half_width:.2g}</span>'
    return f'<td class="num" data-v="{found.mean!r}">{scale * found.mean:.4g}{half}</td>'


def _reasons(lost: tuple[tuple[str, str], ...]) -> str:
    return f'<ol class="ranks">{"".join(f"<li><b>{held(what)}</b><p>{held(why)}</p></li>" for what, why in lost)}</ol>'


def _rejected(told: Told) -> str:
    shown = [f"{what}: {why}" for what, why in told.rejected[:MOST_REJECTED]]
    more = len(told.rejected) - len(shown)
    tail = f'<p class="note">and {more} more</p>' if more else ""
    return f"<details><summary>{len(told.rejected)} engines</summary><ul>{items(shown)}</ul>{tail}</details>"


def _facts(told: Told) -> dict[str, str]:
    who, plan = told.plan.planner, told.plan
    facts = {
        "planner": f"{who.name} {who.version}",
        **{name.replace("_", " "): f"{value}" for name, value in who.options.items()},
        "first seed": f"{who.seed}",
        "simulations": f"{who.evaluations:,}",
    }
    if plan.workload is not None:
        w = plan.workload
        facts["traffic"] = f"{w.requests:,} requests in {w.duration_s:.4g} s: {w.source}"
    return facts


def _share(found: Estimate) -> str:
    return f"{found.mean:.2%}" if found.n == 1 else f"{found.mean:.2%} ± {found.half_width:.2%}"
