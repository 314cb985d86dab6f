"""The verdicts on the docs' pages, written from what was kept of the last runs.

A page has a pair of comments, ``<!-- verdicts: alpa -->`` and ``<!-- end of verdicts -->``; what lies between is made
by ``python -m meshwright.reproduce.pages DOCS``, and a test holds it against ``data/verdicts.json`` and the rules.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ..files import write_text
from .catalogue import FIGURES
from .claims import Verdict, tally
from .rules import expectations
from .verdicts import Kept, last, load

__all__ = ["table", "written"]

BETWEEN = re.compile(r"(<!-- verdicts: (\w+) -->\n).*?(<!-- end of verdicts -->)", re.S)


def table(paper: str, kept: Mapping[str, Mapping[str, Kept]]) -> str:
    """The verdicts of a paper's figures as Markdown: a sum, then a row for each claim of each one's last run."""
    rows: list[str] = []
    verdicts: Counter[Verdict] = Counter()
    others = 0
    missing: list[str] = []
    for name in (name for name, figure in FIGURES.items() if figure.paper == paper):
        found = last(kept.get(name, {}))
        if found is None:
            missing.append(f"`{name}`")
            continue
        mode, run = found
        rows += _rows(f"`{name}`, {mode}, {run.date}", name, run)
        verdicts += Counter(run.verdicts.values())
        others += len(run.claims) - len(run.verdicts)
    said = [f"Of the findings {tally(verdicts, others)}."]
    said += [f"Not run since the rules were frozen: {', '.join(missing)}."] * bool(missing)
    head = ["| figure, version | claim | paper | ours | rule | verdict |", "|---|---|---|---|---|---|"]
    return "\n".join([" ".join(said), "", *head, *rows]) + "\n"


def _rows(first: str, name: str, run: Kept) -> list[str]:
    """A row for each claim; `first` stands in the first one. A claim that is no finding has its kind for a verdict."""
    known = {one.text: one for one in expectations(name)}
    rows: list[str] = []
    for one in run.claims:
        expected = known[one.claim]
        verdict = one.verdict if one.kind == "finding" else one.kind
        cells = (first, f"{one.claim} ({expected.where})", expected.paper, one.ours, expected.rule.text, verdict)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        first = ""
    return rows


def written(text: str) -> str:
    """A page with its verdicts made anew."""
    kept = load()
    return BETWEEN.sub(lambda found: found[1] + table(found[2], kept) + found[3], text)


if __name__ == "__main__":
    for page in sorted(Path(sys.argv[1]).glob("*.md")):
        before = page.read_text("utf-8")
        if (after := written(before)) != before:
            write_text(page, after)
