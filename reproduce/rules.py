"""The claims' rules, frozen in a file: a rule that moves moves that file, too, and its diff tells.

``python -m meshwright.reproduce.rules`` writes the file anew; a test holds the figures' modules against it.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from ..files import write_text
from .catalogue import FIGURES
from .claims import Expectation

__all__ = ["FROZEN", "expectations", "text"]

FROZEN = Path(__file__).parent / "data" / "rules.json"
"""Figure -> its claims, with kind, rule and place in the paper."""


def expectations(name: str) -> tuple[Expectation, ...]:
    """The claims that a figure's module states as ``EXPECTED``; those who judge others fail a test."""
    return tuple(importlib.import_module(FIGURES[name].module).EXPECTED.values())


def text() -> str:
    """What the file says of the modules as they are."""
    found = {
        name: [
            {"claim": e.text, "where": e.where, "paper": e.paper, "rule": e.rule.text, "kind": e.kind}
            for e in expectations(name)
        ]
        for name in FIGURES
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write_text(FROZEN, text())
