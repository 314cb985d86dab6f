"""docs/llm-planner.md names every option of the search."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from meshwright.planners.vllm import Effort, SearchSpace

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "llm-planner.md").read_text("utf-8")


def test_every_option_is_named() -> None:
    for field in (*fields(SearchSpace), *fields(Effort)):
        assert f"`{field.name}`" in PAGE, field.name
