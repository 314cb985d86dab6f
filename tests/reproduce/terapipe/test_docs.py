"""docs/reproduce-terapipe.md states the claims, rules and rates that the code holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from meshwright.planners.terapipe.v100.cell import CALIBRATED
from meshwright.reproduce import FIGURES
from meshwright.reproduce.terapipe.fit import FEW

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reproduce-terapipe.md").read_text("utf-8")
MINE = [name for name in FIGURES if name.startswith("terapipe/")]


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
