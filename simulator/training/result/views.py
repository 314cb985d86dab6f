"""Views of a training result: its summary, a table of actions, and a picture."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from typing import TYPE_CHECKING

import numpy as np

from ...plots import panels
from ...summary import Figure, Summary
from ..program.actions import Op

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

    from .iteration import TrainingResult

__all__ = ["plot", "summary", "to_frame"]


def summary(result: TrainingResult) -> Summary:
    """Seconds, samples per second, shares of time and of the devices' peak, bytes."""
    return Summary(
        repr(result),
        [
            Figure("seconds", result.seconds, "s", "of one iteration"),
            Figure("samples_per_s", result.samples_per_s, "1/s", "samples of the global batch: the goodput"),
            Figure("devices", float(result.devices.sum()), "", "that train"),
            Figure("bubble", result.bubble, "", "share of device time in which nothing is computed"),
            Figure("pflops", result.pflops, "PFLOP/s", "of the model, all devices together"),
            Figure("mfu", result.mfu, "", "model FLOPs over the devices' peak"),
            Figure("communication_s", float(result.communication_s.max(initial=0.0)), "s", "of the mesh with the most"),
            Figure("peak_bytes", float(result.peak_bytes[result.fullest]), "bytes", "of the fullest device"),
            Figure("memory_bytes", float(result.memory_bytes), "bytes", "that this device has"),
        ],
    )


def to_frame(result: TrainingResult) -> pd.DataFrame:
    """One row per action, mesh after mesh."""
    import pandas as pd

    c, times = result.program.columns, result.times
    names = np.array([str(op) for op in Op], dtype=object)
    return pd.DataFrame(
        {
            "mesh": c.mesh,
            "op": names[c.op],
            "stage": c.stage,
            "microbatch": c.microbatch,
            "peer": c.peer,
            "slice": c.slice,
            "start_s": times.start,
            "finish_s": times.finish,
        }
    )


def plot(result: TrainingResult) -> Drawing:
    """Above what each mesh did when, below the memory of its devices."""
    timeline = result.timeline()
    with panels(0.3 * len(timeline.lanes) + 0.8, 2.2, title=repr(result)) as (figure, (above, below)):
        timeline.plot(above)
        result.memory().plot(below)
    return figure
