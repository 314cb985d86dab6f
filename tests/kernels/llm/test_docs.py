"""docs/llm-kernels.md names every kernel."""

from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = (Path(__file__).parents[3] / "docs" / "llm-kernels.md").read_text("utf-8")


def test_every_kernel_is_named():
    from meshwright.kernels.llm import LLMKernels

    for field in fields(LLMKernels):
        assert field.name == "name" or f"`{field.name}`" in PAGE
