"""docs/themis.md: its Python runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[2] / "docs/themis.md").read_text(encoding="utf-8")


def test_python_of_the_page_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, object] = {}
    exec(block, names)
    result = names["result"]
    assert result.completed.all()  # type: ignore[attr-defined]
    assert result.policy == "themis"  # type: ignore[attr-defined]
