"""A figure's card: picture, claims with verdicts, what headlines hinge on, cost and command."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path

from ...worlds.look import held, items
from ..batch import Failed
from ..catalogue import FIGURES
from ..claims import VERDICTS, Claim, Verdict
from ..made import Made

__all__ = ["BADGES", "card", "failed"]

BADGES: Mapping[Verdict, str] = {
    verdict: f'<span class="badge {verdict.replace(" ", "-").lower()}">{verdict}</span>' for verdict in VERDICTS
}


def card(made: Made, out: str) -> str:
    """The card of a figure that was made."""
    figure = FIGURES[made.name]
    plain = [picture for picture in made.pictures if not picture.stem.endswith("_sensitivity")]
    swings = [picture for picture in made.pictures if picture.stem.endswith("_sensitivity")]
    version = "fast" if made.fast else "full"
    thesis = f" · {figure.alias}" if figure.alias else ""
    command = f"meshwright reproduce {made.name}{' --fast' if made.fast else ''} --seed {made.seed} --out {out}"
    verdicts = " ".join(dict.fromkeys(c.verdict.replace(" ", "-") for c in made.claims if c.kind == "finding"))
    parts = [
        f'<article class="figure-card" data-paper="{figure.paper}" data-verdicts="{verdicts}" id="{made.name}">',
        f"<h3>{escape(figure.title)}</h3>",
        f'<p class="note">{made.name}{thesis} · {version} version · {made.cpu_s:,.0f} CPU s</p>',
        *(_picture(path, figure.title) for path in plain),
        f'<ul class="claims">{"".join(map(_claim, made.claims))}</ul>',
        *(_picture(path, "what the headlines hinge on") for path in swings),
        *(f'<p class="needed"><b>{escape(s.claim)}</b>: {held(s.needed)}</p>' for s in made.sensitivity),
        f"<details><summary>Assumptions</summary><ul>{items(made.notes)}</ul></details>" if made.notes else "",
        f"<pre>{escape(command)}</pre>",
        "</article>",
    ]
    return "\n".join(part for part in parts if part)


def failed(found: Failed) -> str:
    """The card of a figure that could not be made."""
    figure = FIGURES[found.name]
    return (
        f'<article class="figure-card" data-paper="{figure.paper}" data-verdicts="" id="{found.name}">'
        f'<h3>{escape(figure.title)}</h3><p class="note">{found.name}</p>'
        f'<ul class="warnings">{items((f"not made: {found.why}",))}</ul></article>'
    )


def _picture(path: Path, what: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img loading="lazy" alt="{escape(what, quote=True)}" src="data:image/png;base64,{data}">'


def _claim(claim: Claim) -> str:
    badge = BADGES[claim.verdict] if claim.kind == "finding" else f'<span class="badge other">{claim.kind}</span>'
    asks = claim.verdict == "needs a GPU"
    reason = f'<p class="why">{"there" if asks else "why"}: {held(claim.why)}</p>' if claim.why else ""
    filtered = claim.verdict.replace(" ", "-") if claim.kind == "finding" else ""
    return (
        f'<li data-verdict="{filtered}">{badge} {held(claim.text)} '
        f'<span class="note">({escape(claim.where)})</span>'
        f'<p class="sides"><b>paper</b> {held(claim.paper)} <b>ours</b> {held(claim.ours)} '
        f'<span class="note">{held(claim.rule)}</span></p>{reason}</li>'
    )
