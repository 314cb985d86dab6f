"""What tests ask of the processes of real runs, and of what their arbiters note down."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def agents_of(parent: int, what: str = "agent.nursery") -> dict[int, int]:
    """Processes of agents under a process, or its arbiter's: pid -> its parent, the nursery."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                above = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if f"meshwright.runtime.sharing.{what}" in command and f" {parent} " in command:
                found[int(entry.name)] = above
    return found


def noted(journal: Path, op: str) -> list[dict[str, Any]]:
    """Whole lines of a journal of one kind."""
    text = journal.read_text() if journal.exists() else ""
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return [line for line in lines if line["op"] == op]


def wait_until(what: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.005)
