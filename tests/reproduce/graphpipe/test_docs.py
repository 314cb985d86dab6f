"""docs/reproduce-graphpipe.md states the claims and rules that the code holds."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from meshwright.planners.graphpipe import SequentialOptions
from meshwright.reproduce import FIGURES
from meshwright.reproduce.graphpipe.systems import MODELS

PAGE = (Path(__file__).parents[3] / "docs" / "reproduce-graphpipe.md").read_text("utf-8")
NAMES = [name for name in FIGURES if name.startswith("graphpipe/")]


def test_what_the_page_says_of_branches():
    """The appendix's, and the section's on search times."""
    assert [(m.branches, m.branches_searched) for m in MODELS.values()] == [(4, 2), (7, 8), (7, 8)]
    assert 5**7 + 1 == 78_126  # four layers of seven branches: five cuts of each, and the whole with the head
    assert "78,126" in PAGE
    assert hasattr(SequentialOptions(), "max_states")
    assert "`max_states`" in PAGE


def test_pictures_are_there():
    found = re.findall(r"\((images/[^)]+)\)", PAGE)
    assert found
    for name in found:
        assert (Path(__file__).parents[3] / "docs" / name).is_file()


def test_the_example_says_what_branches_gain(capsys: pytest.CaptureFixture[str]):
    runpy.run_path(str(Path(__file__).parents[3] / "examples/stage_graphs.py"))
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines[1:4]]
    assert [row[0] for row in rows] == ["2", "4", "8"]
    for _, depth, fast, chain_depth, slow, gain in rows:
        assert int(depth) < int(chain_depth) <= 8
        assert float(gain) == pytest.approx(float(fast) / float(slow), abs=0.01)
        assert float(gain) >= 1.0
