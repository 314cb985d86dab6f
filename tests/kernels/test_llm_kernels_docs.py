"""docs/llm-kernels.md: its example runs and prints what it says; it names every kernel."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = (Path(__file__).parents[2] / "docs" / "llm-kernels.md").read_text("utf-8")


def test_the_example_prints_what_it_says(capsys):
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out == printed


def test_every_kernel_is_named():
    from meshwright.kernels.llm import LLMKernels

    for field in fields(LLMKernels):
        assert field.name == "name" or f"`{field.name}`" in PAGE
