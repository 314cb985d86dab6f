"""docs/alpa.md: its example runs, and names every option and baseline."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from meshwright.planners.alpa import BASELINES, AlpaOptions

PAGE = Path(__file__).parents[2] / "docs" / "alpa.md"


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        exec(code, {})
    assert (tmp_path / "plan.json").stat().st_size > 1000


def test_every_option_and_baseline_is_named():
    text = PAGE.read_text(encoding="utf-8")
    assert [f.name for f in dataclasses.fields(AlpaOptions) if f"`{f.name}`" not in text] == []
    assert [name for name in BASELINES if f"`{name}`" not in text] == []


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+\.md)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).exists(), target
