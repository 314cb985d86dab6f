"""docs/terapipe.md: it names every option."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from meshwright.planners.terapipe import TeraPipeOptions

PAGE = Path(__file__).parents[3] / "docs" / "terapipe.md"


def test_every_option_is_named_with_its_default():
    text = PAGE.read_text(encoding="utf-8")
    assert [f.name for f in dataclasses.fields(TeraPipeOptions) if f"`{f.name}`" not in text] == []
    assert f"| `memory_fraction` | {TeraPipeOptions().memory_fraction} |" in text
    assert f"| `slicing` | `{TeraPipeOptions().slicing}` |" in text
