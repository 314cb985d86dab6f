"""Tornado pictures."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.reproduce import Sensitivity, Swing
from meshwright.reproduce.report import Session
from meshwright.reproduce.sensitivity import tornado

NARROW = Swing("host time, 20 ms", "0 ms", "40 ms", 1.4, 1.6)
WIDE = Swing("memory, 15 GiB", "0.5 GiB", "1 GiB", math.nan, 2.2)
FOUND = Sensitivity("lead", 2.0, 1.5, "× Orca", (NARROW, WIDE), "0.9 GiB")


def test_the_widest_swing_comes_first() -> None:
    assert FOUND.ordered == (WIDE, NARROW)
    assert (NARROW.reach(1.5), WIDE.reach(1.5)) == pytest.approx((0.1, 0.7))
    [ax] = tornado([FOUND]).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [WIDE.assumption, NARROW.assumption]
    assert sorted(round(bar.get_width(), 6) for bar in ax.patches) == [-0.1, 0.1, 0.7]  # an end without a figure: none


def test_it_is_written_with_the_verdicts(tmp_path: Path) -> None:
    report = Session("alpaserve/fig01", True, tmp_path, 0).finish([], sensitivity=[FOUND])
    assert (tmp_path / "alpaserve/fig01_sensitivity.png").is_file()
    [said] = json.loads((tmp_path / "alpaserve/fig01.json").read_text())["sensitivity"]
    assert said["swings"][1]["at_low"] is None
    assert report.sensitivity == (FOUND,)


def test_a_headline_without_its_need_is_refused() -> None:
    with pytest.raises(InputError, match="what the paper's figure needs"):
        Sensitivity("lead", 2.0, 1.5, "×", (NARROW,), "")
    with pytest.raises(InputError, match="finite"):
        Sensitivity("lead", 2.0, math.nan, "×", (NARROW,), "none")
