"""docs/reproduce-alpa.md states the claims and rules that the code holds."""

from __future__ import annotations

import re
from pathlib import Path

from meshwright.reproduce import FIGURES

PAGE = (Path(__file__).parents[3] / "docs" / "reproduce-alpa.md").read_text("utf-8")
ALPA = [name for name in FIGURES if name.startswith("alpa/")]


def test_pictures_are_there():
    for name in re.findall(r"\((images/[^)]+)\)", PAGE):
        assert (Path(__file__).parents[3] / "docs" / name).is_file()
