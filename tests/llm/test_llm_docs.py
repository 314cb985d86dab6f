"""docs/llm-serving.md: its example runs, and names every scheduler and router."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from meshwright.simulator.llm import POLICIES
from meshwright.simulator.llm.router import ROUTERS

PAGE = (Path(__file__).parents[2] / "docs" / "llm-serving.md").read_text("utf-8")


def test_the_example_runs(capsys) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    said: dict[str, Any] = {}
    exec(block, said)
    assert "500 of 500 requests finished" in capsys.readouterr().out
    assert said["result"].finished.all()


def test_every_scheduler_and_router_is_named() -> None:
    for name in (*POLICIES, *ROUTERS):
        assert f"`{name}`" in PAGE
