"""docs/alpa.md: it names every option and baseline."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from meshwright.planners.alpa import BASELINES, AlpaOptions

PAGE = Path(__file__).parents[4] / "docs" / "alpa.md"


def test_every_option_and_baseline_is_named():
    text = PAGE.read_text(encoding="utf-8")
    assert [f.name for f in dataclasses.fields(AlpaOptions) if f"`{f.name}`" not in text] == []
    assert [name for name in BASELINES if f"`{name}`" not in text] == []
