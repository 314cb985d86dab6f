"""Who had which GPU when: as a picture, a table, or a trace for Perfetto."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import InputError

if TYPE_CHECKING:
    from ....simulator.sharing import SharingResult

__all__ = ["FORMATS", "check_timeline", "merged_traces", "write_timeline"]

FORMATS = (".png", ".svg", ".csv", ".json")
NAMED = 28
"""Apps in the picture's legend, at most: so many colours there are."""


def check_timeline(path: Path, engine: str) -> str:
    """See that a timeline can be made and written.

    Returns
    -------
    str
        The engine that makes it: the readable model, which alone notes down what each job has.

    Raises
    ------
    InputError
        If the name's end is unknown, nothing can be written there, or the compiled engine is asked for.
    """
    if path.suffix not in FORMATS:
        raise InputError(f"timeline: expected a name that ends in {', '.join(FORMATS)} (got {path})")
    if engine == "compiled":
        raise InputError("timeline: the compiled engine does not note down which GPUs each job had; leave engine out")
    return "simpy"


def write_timeline(path: Path, results: Mapping[str, SharingResult]) -> None:
    """Write what the name's end says: a picture with a panel for each policy (.png, .svg), rows (.csv), a Chrome trace
    (.json)."""
    from ....files import write_bytes, write_text

    if path.suffix == ".csv":
        import pandas as pd

        from ....simulator.sharing import gpu_timeline

        write_text(path, pd.concat([gpu_timeline(result) for result in results.values()]).to_csv(index=False))
    elif path.suffix == ".json":
        write_text(path, json.dumps(merged_traces(results)) + "\n")
    else:
        write_bytes(path, _picture(results, path.suffix.removeprefix(".")))


def merged_traces(results: Mapping[str, SharingResult]) -> dict[str, Any]:
    """One Chrome trace: the machines of each policy are processes of their own."""
    from ....simulator.sharing import chrome_trace

    events: list[dict[str, Any]] = []
    for number, (name, result) in enumerate(results.items()):
        first = number * len(result.world.cluster.machines)
        for event in chrome_trace(result)["traceEvents"]:
            moved = {**event, "pid": event["pid"] + first}
            if event["name"] == "process_name" and len(results) > 1:
                moved["args"] = {"name": f"{name}: {event['args']['name']}"}
            events.append(moved)
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _picture(results: Mapping[str, SharingResult], kind: str) -> bytes:
    """A panel for each policy, one under the other, with the same hours and GPUs."""
    import matplotlib
    from matplotlib.figure import Figure

    from ....simulator.palette import SETTINGS
    from ....simulator.sharing.result.timeline import draw_gantt

    world = next(iter(results.values())).world
    high = min(max(1.6, 0.055 * world.cluster.n_gpus), 5.0)
    settings: dict[Any, Any] = {**SETTINGS, "svg.hashsalt": "meshwright"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(9.0, 0.7 + (high + 0.5) * len(results)), layout="constrained")
        axes: Any = figure.subplots(len(results), 1, squeeze=False, sharex=True)[:, 0]
        for ax, result in zip(axes, results.values(), strict=True):
            draw_gantt(result, ax)
            ax.label_outer()
        axes[0].set_xlim(0, max(result.makespan_s for result in results.values()) / 3600)
        handles, labels = axes[0].get_legend_handles_labels()
        if len(labels) <= NAMED:
            figure.legend(handles, labels, loc="outside right upper", fontsize=7)
        out = io.BytesIO()
        metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
        figure.savefig(out, format=kind, dpi=150, metadata=metadata)
    return out.getvalue()
