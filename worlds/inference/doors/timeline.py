"""What runs when: the groups of a placement one after another, a row for each backend, as a Chrome trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["chrome_trace"]


def chrome_trace(name: str, units: Sequence[tuple[str, tuple[str, ...]]], ms: Sequence[float]) -> str:
    """JSON for Perfetto.

    Parameters
    ----------
    name : str
        Of the network.
    units : sequence of (str, tuple of str)
        Backend and operators of each, in order.
    ms : sequence of float
        Of each.
    """
    rows = {backend: k for k, backend in enumerate(dict.fromkeys(backend for backend, _ in units))}
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": name}}]
    events += [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": row, "args": {"name": backend}}
        for backend, row in rows.items()
    ]
    at = 0.0
    for (backend, nodes), took in zip(units, ms, strict=True):
        what = nodes[0] if len(nodes) == 1 else f"{nodes[0]} … {nodes[-1]}"
        events.append(
            {
                "ph": "X", "name": what, "pid": 0, "tid": rows[backend], "ts": 1e3 * at, "dur": 1e3 * took,
                "args": {"operators": len(nodes)},
            }
        )  # fmt: skip
        at += took
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}) + "\n"
