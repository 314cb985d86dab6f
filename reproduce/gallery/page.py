"""`page`: the gallery as one HTML page that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from ...worlds.look import document, held, items, section
from ..batch import Failed
from ..catalogue import FIGURES, PAPERS
from ..claims import VERDICTS, tally
from ..made import Made
from .card import BADGES, card, failed
from .sums import Sum, of_papers

__all__ = ["page"]

FOOTER = "Made by Meshwright. Data, pictures and verdicts of each figure are in the folder beside this page."


def page(made: Sequence[Made], failures: Sequence[Failed] = (), *, out: str = "OUT") -> str:
    """The whole page: what holds of which paper, then a card for each figure, in the papers' order.

    Parameters
    ----------
    made : sequence of Made
        The figures that are there.
    failures : sequence of Failed
        Those that could not be made.
    out : str
        The folder's name, for the commands.
    """
    by_name = {one.name: card(one, out) for one in made} | {one.name: failed(one) for one in failures}
    sums = of_papers(made)
    total = sum(sums.values(), Sum())
    hero = f'<div class="answers"><div><p class="answer fair">{held(_said(total))}</p></div></div>'
    papers = [paper for paper in PAPERS if any(FIGURES[name].paper == paper for name in by_name)]
    sections = [
        f"<style>{_data('gallery.css')}</style>",
        section("Findings by paper", _table(sums)),
        section("What the words mean", f'<ul class="meanings">{_meanings()}</ul>'),
        f'<div class="tools" id="filter">{_tools(papers)}</div>',
        *(
            f'<section class="paper"><h2>{escape(PAPERS[paper].title)}</h2><div class="gallery">'
            + "".join(by_name[name] for name in FIGURES if name in by_name and FIGURES[name].paper == paper)
            + "</div></section>"
            for paper in papers
        ),
        f"<script>{_data('gallery.js')}</script>",
    ]
    return document("The papers' figures, made again", "Meshwright gallery", hero, sections, FOOTER)


def _said(total: Sum) -> str:
    judged = total.findings - total.counts["needs a GPU"]
    good = total.counts["holds"] + total.counts["beyond"]
    share = f" ({good / judged:.0%} hold or are beyond)" if judged else ""
    return f"{total.figures} figures and tables. Of the findings {tally(total.counts, total.others)}{share}."


def _table(sums: Mapping[str, Sum]) -> str:
    """A row for each paper, and the sum."""
    rows = [(PAPERS[paper].title, one) for paper, one in sums.items()]
    rows.append(("all", sum(sums.values(), Sum())))
    heads = ("paper", "figures", "findings", *VERDICTS, "not counted", "CPU s")
    head = "".join(f'<th scope="col"{" class=num" if k else ""}>{escape(text)}</th>' for k, text in enumerate(heads))
    body = "".join(
        f'<tr><td class="name">{escape(name)}</td>'
        + "".join(
            f'<td class="num">{value:,}</td>'
            for value in (one.figures, one.findings, *(one.counts[v] for v in VERDICTS), one.others, round(one.cpu_s))
        )
        + "</tr>"
        for name, one in rows
    )
    return (
        '<div class="scroll"><table class="sums"><caption class="visually-hidden">Findings by paper</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _meanings() -> str:
    says = {
        "holds": "our figure lies within the tolerance that was written down before it was seen",
        "beyond": "our effect is larger than the paper's, past the tolerance",
        "partly": "within a wider tolerance, also written down before",
        "does not hold": "neither; the card says which cause was tested",
        "needs a GPU": "answered by the command on the card, on a machine with a GPU; not counted either way",
    }
    plain = items(
        ("given, identity, calibrated: inputs of the paper, arithmetic, figures seen while choosing; not counted",)
    )
    return "".join(f"<li>{BADGES[v]} {escape(says[v])}</li>" for v in VERDICTS) + plain


def _tools(papers: Sequence[str]) -> str:
    options = "".join(f'<option value="{p}">{escape(PAPERS[p].title)}</option>' for p in papers)
    verdicts = "".join(f'<option value="{v}">{escape(v)}</option>' for v in VERDICTS)
    return (
        '<label>Search<input type="search" placeholder="words of a figure"></label>'
        f'<label>Paper<select name="paper"><option value="">all</option>{options}</select></label>'
        f'<label>Verdict<select name="verdict"><option value="">all</option>{verdicts}</select></label>'
        '<output aria-live="polite"></output>'
    )


def _data(name: str) -> str:
    return files(__spec__.parent).joinpath(name).read_text(encoding="utf-8")
