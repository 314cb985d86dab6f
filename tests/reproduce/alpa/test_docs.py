"""docs/reproduce-alpa.md states the claims and rules that the code holds."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from meshwright.reproduce import FIGURES
from meshwright.reproduce.claims import Expectation

PAGE = (Path(__file__).parents[3] / "docs" / "reproduce-alpa.md").read_text("utf-8")
ALPA = [name for name in FIGURES if name.startswith("alpa/")]


def expectations() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ALPA:
        expected: dict[str, Expectation] = importlib.import_module(FIGURES[name].module).EXPECTED
        found |= {e.text: e.rule.text for e in expected.values()}
    return found


def test_every_row_of_the_page_is_a_claim_with_its_rule():
    known = expectations()
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.endswith(("holds |", "** |"))]
    assert len(rows) > 30
    for row in rows:
        claim, rule, verdict = row[-5], row[-2], row[-1].strip("*")
        text = max((t for t in known if claim.startswith(t)), key=len, default="")
        assert known[text] == rule, claim
        assert verdict in ("holds", "partly", "does not hold")


def test_the_count_is_that_of_the_rows():
    verdicts = re.findall(r"\| (?:\*\*)?(holds|partly|does not hold)(?:\*\*)? \|$", PAGE, re.M)
    said = re.search(r"Of (\d+) claims (\d+) hold, (\d+) hold partly, (\d+) do not hold", PAGE)
    assert said is not None
    counts = [len(verdicts), *(verdicts.count(v) for v in ("holds", "partly", "does not hold"))]
    assert [int(x) for x in said.groups()] == counts


def test_pictures_are_there():
    for name in re.findall(r"\((images/[^)]+)\)", PAGE):
        assert (Path(__file__).parents[3] / "docs" / name).is_file()
