"""What `simulate_llm` is asked, from one flat mapping: tests vary options of both kinds alike."""

from __future__ import annotations

import dataclasses
from typing import Any

from meshwright.simulator.llm import SimulateOptions

RARER = {field.name for field in dataclasses.fields(SimulateOptions)}


def llm_asked(**said: Any) -> dict[str, Any]:
    """Keywords of `simulate_llm`; those of `SimulateOptions` go into ``options``."""
    rarer = {name: value for name, value in said.items() if name in RARER}
    plain = {name: value for name, value in said.items() if name not in RARER}
    return {**plain, "options": SimulateOptions(**rarer)} if rarer else plain
