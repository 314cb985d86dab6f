"""docs/llm-planner.md: its example runs and prints what the page says; every option of the search is named."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from meshwright.planners.vllm import Effort, SearchSpace
from meshwright.simulator.llm import LLMPlan

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "llm-planner.md").read_text("utf-8")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def test_the_example_prints_what_the_page_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    example = (ROOT / "examples" / "llm_plan.py").read_text("utf-8")
    assert code.strip() in example
    monkeypatch.chdir(tmp_path)
    said: dict[str, Any] = {}
    exec(example, said)
    out = capsys.readouterr().out
    assert NUMBER.sub("#", out) == NUMBER.sub("#", printed)
    # Costs are measured anew now and then; the page may lag a little, not much.
    wanted, got = ([float(x) for x in NUMBER.findall(text)] for text in (printed, out))
    assert got == pytest.approx(wanted, rel=0.1)
    assert LLMPlan.load(tmp_path / "llm-plan.json") == said["found"].plan


def test_every_option_is_named() -> None:
    for field in (*fields(SearchSpace), *fields(Effort)):
        assert f"`{field.name}`" in PAGE, field.name
