"""docs/llm-engine.md: its example runs and prints what the page says; examples/llm_engine.py runs."""

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")

from meshwright.runtime.llm.engine.adapters import ADAPTERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "llm-engine.md").read_text("utf-8")


def test_the_example_prints_what_the_page_says(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    exec(block, {})
    assert capsys.readouterr().out == shown


def test_every_policy_is_named():
    for name in ADAPTERS:
        assert f"`{name}`" in PAGE


def test_the_example_file(capsys):
    pytest.importorskip("uvicorn")
    runpy.run_path(str(ROOT / "examples" / "llm_engine.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "12 of 12 requests finished" in said
    assert len(said.split("tiny-llama says: ")[1].rstrip("\n")) <= 20
