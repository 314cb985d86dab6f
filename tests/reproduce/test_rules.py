"""Rules are frozen: a rule that moves moves the file, too; every page's verdicts are those that are kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from meshwright.reproduce import FIGURES, rules
from meshwright.reproduce.pages import BETWEEN, written
from meshwright.reproduce.verdicts import load

DOCS = Path(__file__).parents[2] / "docs"


def test_the_rules_are_those_that_were_frozen() -> None:
    assert rules.text() == rules.FROZEN.read_text("utf-8"), (
        "python -m meshwright.reproduce.rules; say why in the commit"
    )


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_states_each_claim_once(name: str) -> None:
    texts = Counter(one.text for one in rules.expectations(name))
    assert texts
    assert set(texts.values()) == {1}


def test_what_is_kept_was_judged_by_these_rules() -> None:
    for name, runs in load().items():
        known = {one.text: one.kind for one in rules.expectations(name)}
        for run in runs.values():
            assert {one.claim: one.kind for one in run.claims}.items() <= known.items(), name


def test_pages_say_what_is_kept() -> None:
    pages = [page for page in DOCS.glob("*.md") if BETWEEN.search(page.read_text("utf-8"))]
    assert pages
    for page in pages:
        assert written(page.read_text("utf-8")) == page.read_text("utf-8"), f"{page.name}: reproduce.pages docs"
