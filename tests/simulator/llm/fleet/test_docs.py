"""docs/llm-fleet.md: its example runs, and its tables name every choice."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from meshwright.simulator.llm import Faults
from meshwright.simulator.llm.fleet.member import STATES
from meshwright.simulator.llm.fleet.pools import HANDOFFS, NICS
from meshwright.simulator.llm.fleet.report import FleetReport
from meshwright.simulator.llm.fleet.scaling import METRICS

PAGE = (Path(__file__).parents[4] / "docs" / "llm-fleet.md").read_text("utf-8")


def test_every_choice_is_named() -> None:
    for name in (*HANDOFFS, *NICS, *METRICS, *STATES, *(f.name for f in fields(Faults))):
        assert name in PAGE, name
    for name in ("first_engine", "transfer_bytes", "lost_tokens", "engine_seconds"):
        assert name in PAGE
        assert name in {f.name for f in fields(FleetReport)} or hasattr(FleetReport, name)
