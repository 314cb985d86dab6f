"""What runs when: the groups of a placement one after another, as a Chrome trace, coloured by backend.

The first row is the call, its slices called by their backends: Perfetto colours slices by their names. Below is a row
for each backend, its slices called by their operators; `cname` is the colour that chrome://tracing gives them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["chrome_trace"]

CALL = 0
"""The row of the whole call; those of the backends follow."""
COLOURS = (
    "thread_state_running", "rail_response", "thread_state_iowait", "rail_animation", "good", "bad", "olive", "grey",
)  # fmt: skip
"""Names that chrome://tracing knows for colours, one a backend, in turn."""


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
    rows = {backend: k for k, backend in enumerate(dict.fromkeys(backend for backend, _ in units), CALL + 1)}
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": name}}]
    events += [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": row, "args": {"name": called}}
        for called, row in (("call", CALL), *rows.items())
    ]
    at = 0.0
    for (backend, nodes), took in zip(units, ms, strict=True):
        what = nodes[0] if len(nodes) == 1 else f"{nodes[0]} … {nodes[-1]}"
        events += [
            {
                "ph": "X", "name": called, "cat": backend, "pid": 0, "tid": row, "ts": 1e3 * at, "dur": 1e3 * took,
                "cname": COLOURS[(rows[backend] - 1) % len(COLOURS)],
                "args": {"backend": backend, "operators": ", ".join(nodes)},
            }
            for called, row in ((backend, CALL), (what, rows[backend]))
        ]  # fmt: skip
        at += took
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}) + "\n"
