"""docs/reproduce-terapipe.md states the claims, rules and rates that the code holds."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from meshwright.planners.terapipe.v100.cell import CALIBRATED
from meshwright.reproduce import FIGURES
from meshwright.reproduce.terapipe.fit import FEW

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reproduce-terapipe.md").read_text("utf-8")
MINE = [name for name in FIGURES if name.startswith("terapipe/")]


def test_every_claim_is_a_row_with_its_rule():
    known = [e for name in MINE for e in importlib.import_module(FIGURES[name].module).EXPECTED.values()]
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.endswith(("holds |", "** |"))]
    said = sorted((cells[-5], cells[-2]) for cells in rows)
    assert said == sorted((f"{e.text} ({e.where})", e.rule.text) for e in known)


def test_the_count_is_that_of_the_rows():
    verdicts = re.findall(r"\| (?:\*\*)?(holds|partly|does not hold)(?:\*\*)? \|$", PAGE, re.M)
    said = re.search(r"Of (\d+) claims (\d+) hold, (\d+) hold partly, (\d+) do not hold", PAGE)
    assert said is not None
    assert [int(x) for x in said.groups()] == [
        len(verdicts),
        *(verdicts.count(v) for v in ("holds", "partly", "does not hold")),
    ]


def test_rates_are_those_of_the_code():
    rows = re.findall(
        r"^\| (share of 125|share of 900|all-reduce|any collective|gradients)[^|]*\| ([\d.]+) \|", PAGE, re.M
    )
    shown = [float(value) for _, value in rows]
    c = CALIBRATED
    rates = [c.gemm, c.memory, c.all_reduce_bytes_per_s / 1e9, c.collective_s * 1e3, c.data_parallel_bytes_per_s / 1e9]
    assert shown == pytest.approx(rates, rel=3e-3)
    assert len(FEW) == 7


def test_pictures_are_there():
    pictures = re.findall(r"\((images/[^)]+)\)", PAGE)
    assert len(pictures) == 2
    for name in pictures:
        assert (ROOT / "docs" / name).is_file()
