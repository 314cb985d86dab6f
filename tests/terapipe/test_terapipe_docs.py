"""docs/terapipe.md: its example runs, names every option, and its commands are the verb's."""

from __future__ import annotations

import dataclasses
import re
import runpy
from pathlib import Path

from meshwright.planners.terapipe import TeraPipeOptions

PAGE = Path(__file__).parents[2] / "docs" / "terapipe.md"


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        exec(code, {})
    assert (tmp_path / "plan.json").stat().st_size > 1000


def test_the_example_file_runs(capsys):
    runpy.run_path(str(PAGE.parents[1] / "examples" / "terapipe.py"))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if " s an iteration, devices idle" in line]
    assert [row[0] for row in rows] == ["none", "uniform", "dp"]
    seconds = [float(row[1]) for row in rows]
    assert seconds == sorted(seconds, reverse=True)


def test_every_option_is_named_with_its_default():
    text = PAGE.read_text(encoding="utf-8")
    assert [f.name for f in dataclasses.fields(TeraPipeOptions) if f"`{f.name}`" not in text] == []
    assert f"| `memory_fraction` | {TeraPipeOptions().memory_fraction} |" in text
    assert f"| `slicing` | `{TeraPipeOptions().slicing}` |" in text


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+\.md)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).exists(), target
