"""docs/llm-serving.md names every scheduler and router."""

from __future__ import annotations

from pathlib import Path

from meshwright.simulator.llm import POLICIES
from meshwright.simulator.llm.policy.router import ROUTERS

PAGE = (Path(__file__).parents[3] / "docs" / "llm-serving.md").read_text("utf-8")


def test_every_scheduler_and_router_is_named() -> None:
    for name in (*POLICIES, *ROUTERS):
        assert f"`{name}`" in PAGE
