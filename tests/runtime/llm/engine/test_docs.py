"""docs/llm-engine.md names every policy."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from meshwright.runtime.llm.engine.adapters.table import ADAPTERS

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "llm-engine.md").read_text("utf-8")


def test_every_policy_is_named():
    for name in ADAPTERS:
        assert f"`{name}`" in PAGE
