"""docs/llm-engine.md: its example runs and prints what the page says; examples/llm_engine.py runs."""

import re
import subprocess
import sys
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


def test_the_example_file():
    """In a process of its own, as users run it: it starts a server in a thread."""
    pytest.importorskip("uvicorn")
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "llm_engine.py"], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout
    assert "12 of 12 requests finished" in said
    assert len(said.split("tiny-llama says: ")[1].rstrip("\n")) <= 20
